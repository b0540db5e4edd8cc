"""Interaction membership: did this person meet that item? Asked of the released tables, all else being known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.data.split import Split
from fedrec.study.attacks.outcome import Outcome
from fedrec.study.attacks.scene import Scene
from fedrec.study.attacks.shadows import coins, lira, released, scores_of, why_not

NAME = "interaction"
SEES = "the released tables"

__all__ = ["NAME", "SEES", "attack", "why_not"]


def attack(scene: Scene) -> list[Outcome]:
    """The statistic: how high a device with the rest of the history ranks the item."""
    parts, rng = scene.parts, scene.rng(NAME)
    people = np.flatnonzero(np.diff(parts.trained.indptr) > 1)  # something must be left
    lengths = parts.trained.counts(people)
    item = parts.trained.items[parts.trained.indptr[people] + rng.integers(lengths)]
    thrown = coins(scene, len(people), f"{NAME} coins")
    everyone = np.arange(parts.n_users)
    devices = scene.simulation(without(parts, people, item)).clients

    def run(number: int) -> NDArray[np.float64]:
        out = ~thrown[number]
        told = released(scene, without(parts, people[out], item[out]), everyone, number)
        return scores_of(devices, told, people)[np.arange(len(people)), item]

    return [lira(scene, NAME, SEES, thrown, run, 2)]


def without(parts: Split, users: Ids, items: NDArray[np.int32]) -> Split:
    """The same, but these users never met these items."""
    gone = np.full(parts.n_users, -1, np.int64)
    gone[users] = items
    owner = np.repeat(np.arange(parts.n_users), np.diff(parts.train.indptr))
    kept = parts.train.items != gone[owner]
    train = Ragged(run_ends(np.bincount(owner[kept], minlength=parts.n_users)), parts.train.items[kept])
    return replace(parts, train=train)
