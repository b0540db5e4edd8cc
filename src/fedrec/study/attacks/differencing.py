"""Differencing: two sums that differ by one user are that user's upload. Masks do not help; noise does.

The case that favours the adversary most: the same model, the same draws of everyone else, one user absent once.
"""

from __future__ import annotations

import numpy as np

from fedrec.core.slots import Arrays
from fedrec.study.attacks.outcome import Outcome, recovered
from fedrec.study.attacks.scene import Scene
from fedrec.study.attacks.sign import along_first_component, vectors

NAME = "differencing"
SEES = "two sums, one user absent"
MOST = 30  # targets: each takes a round
ROUNDING = 1e-5


def why_not(scene: Scene) -> str:
    if scene.now.single:
        return "its server adds nothing up: it looks at single uploads"
    tables = any(slot.rows for slot in scene.now.server.sums.values())
    return "" if tables else "its sums have no rows of items"


def attack(scene: Scene) -> list[Outcome]:
    everyone = np.arange(scene.parts.n_users)
    whole = scene.total(everyone)
    scores = {}
    users = scene.users[:MOST]
    for number, user in enumerate(users, 1):
        scene.tell(f"{NAME}: {number} of {len(users)}")
        without = scene.released(scene.total(everyone[everyone != user]), 2 * number)
        both = scene.released(whole, 2 * number + 1)
        seen = scene.split_up(difference(both.sums, without.sums))
        wide = vectors(seen)
        scores[int(user)] = along_first_component(wide) if wide.size else np.abs(seen.rows).sum(axis=1)
    return [recovered(NAME, SEES, scores, scene.truth, scene.rng(NAME))]


def difference(one: Arrays, other: Arrays) -> Arrays:
    """What rounding of sums in single precision leaves is nothing."""
    found = {}
    for name, values in one.items():
        apart = values.astype(np.float64) - other[name]
        found[name] = np.where(np.abs(apart) < ROUNDING * np.abs(values).max(initial=0), 0, apart)
    return found
