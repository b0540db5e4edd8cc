"""Sign of the first principal component: rows of positives and of sampled negatives point opposite ways.

A gradient of cross-entropy moves a row by (y − p)·w: along one direction w, forth for positives and back for negatives.
The component gives ±w; positives are on the side with fewer rows. Laplace noise as papers add it does not hide that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.study.attacks.outcome import Outcome, recovered
from fedrec.study.attacks.scene import Scene, Seen

NAME = "sign"
SEES = "one upload"
FAR, FEW = 40.0, 0.02


def why_not(scene: Scene) -> str:
    tables = [slot for slot in scene.now.server.uploads.arrays.values() if slot.rows]
    wide = any(len(slot.shape) > 1 and slot.shape[1] > 1 for slot in tables)
    return "" if wide else "its uploads have no vectors of items"


def along_first_component(rows: NDArray[Any]) -> NDArray[np.float64]:
    """Where each row stands on the line that most of them lie on."""
    rows = rows / max(np.abs(rows).max(), 1e-30)
    _, vectors = np.linalg.eigh(rows.T @ rows)
    along: NDArray[np.float64] = rows @ vectors[:, -1]
    far = np.abs(along) > FAR * np.quantile(np.abs(along), 0.1)  # beyond noise, if there is some
    ahead, behind = int((far & (along > 0)).sum()), int((far & (along < 0)).sum())
    if min(ahead, behind) < FEW * max(ahead, behind):  # all on one side: there are no negatives
        return along if ahead >= behind else -along
    return along if ahead <= behind else -along


def vectors(seen: Seen) -> NDArray[np.float64]:
    """Tables with more than a number a row, side by side."""
    wide = {n: v for n, v in seen.tables.items() if v.ndim > 1 and v.shape[1] > 1}
    return Seen(wide, {}).rows


def attack(scene: Scene) -> list[Outcome]:
    scores = {user: along_first_component(vectors(seen)) for user, seen in scene.uploads.items()}
    return [recovered(NAME, SEES, scores, scene.truth, scene.rng(NAME))]
