"""Counts that devices send for their items: FedALS's 1 for each positive, or another number of a single upload."""

from __future__ import annotations

from fedrec.study.attacks.outcome import Outcome, recovered
from fedrec.study.attacks.scene import Scene

NAME = "senders"
SEES = "one upload"


def names(scene: Scene) -> list[str]:
    """Tables with one number a row."""
    return [n for n, s in scene.now.server.uploads.arrays.items() if s.rows and len(s.shape) == 1]


def why_not(scene: Scene) -> str:
    if not names(scene):
        return "its uploads have no counts of items"
    if not any(seen.tables[n].any() for n in names(scene) for seen in scene.uploads.values()):
        return f"counts do not leave in round {scene.rounds}"
    return ""


def attack(scene: Scene) -> list[Outcome]:
    scores = {
        user: sum(abs(seen.tables[name]) for name in names(scene)) for user, seen in scene.uploads.items()
    }
    return [recovered(NAME, SEES, scores, scene.truth, scene.rng(NAME))]  # type: ignore[arg-type]
