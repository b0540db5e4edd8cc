"""User membership: did this person take part at all? Asked of the released tables, the history being known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec.study.attacks.outcome import Outcome
from fedrec.study.attacks.scene import Scene
from fedrec.study.attacks.shadows import coins, lira, released, scores_of, why_not

NAME = "user"
SEES = "the released tables"

__all__ = ["NAME", "SEES", "attack", "why_not"]


def attack(scene: Scene) -> list[Outcome]:
    """The statistic: how high a device with this history ranks its own things in the model."""
    parts = scene.parts
    people = np.arange(parts.n_users)
    devices, thrown = scene.simulation().clients, coins(scene, parts.n_users, NAME)
    owner, met = np.repeat(people, np.diff(parts.trained.indptr)), parts.trained.items
    count = np.maximum(np.bincount(owner, minlength=len(people)), 1)

    def run(number: int) -> NDArray[np.float64]:
        told = released(scene, parts, np.flatnonzero(thrown[number]), number)
        scores = scores_of(devices, told, people)
        return np.bincount(owner, scores[owner, met], minlength=len(people)) / count

    return [lira(scene, NAME, SEES, thrown, run, 1)]
