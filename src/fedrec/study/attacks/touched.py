"""Touched rows: an upload names the items whose rows it moves. For FedALS these are the positives and nothing else."""

from __future__ import annotations

from fedrec.study.attacks.outcome import Outcome, recovered
from fedrec.study.attacks.scene import Scene

NAME = "touched"
SEES = "one upload"


def why_not(scene: Scene) -> str:
    tables = any(slot.rows for slot in scene.now.server.uploads.arrays.values())
    return "" if tables else "its uploads have no rows of items"


def attack(scene: Scene) -> list[Outcome]:
    scores = {user: seen.rows.any(axis=1).astype(float) for user, seen in scene.uploads.items()}
    return [recovered(NAME, SEES, scores, scene.truth, scene.rng(NAME))]
