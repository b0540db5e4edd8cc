"""The client's own equation: an outer product w wᵀ gives w up to sign, and w solves an equation linear in the history.

(VᵀV + α V_uᵀV_u + λ_u I) w = (1 + α) Σ_{j∈u} v_j + λ_u w₀ says that Σ_j x_j ((1 + α) − α w·v_j) v_j equals a vector
that the server knows, where x_j is 1 for what the client met and 0 elsewhere. There are more items than equations, but
x is between 0 and 1 and mostly 0: the longer w, the more of it comes out. Rows are not looked at.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.kernel import LeastSquares
from fedrec.study.attacks.outcome import Outcome, recovered
from fedrec.study.attacks.scene import Scene, Seen

NAME = "equation"
SEES = "one upload, its outer product"
STEPS, TASTE = 600, 100  # of the right sign, and of both to find it
MOST = 30  # targets: each takes seconds


def why_not(scene: Scene) -> str:
    kernel = scene.method.kernel(scene.now.server.catalog)
    if not isinstance(kernel, LeastSquares) or kernel.next_item is not None:
        return "its devices solve no least squares over what they met"
    if not any(seen.dense[kernel.outer].any() for seen in scene.uploads.values()):
        return f"no outer product leaves in round {scene.rounds}"
    return ""


def attack(scene: Scene) -> list[Outcome]:
    kernel = scene.method.kernel(scene.now.server.catalog)
    assert isinstance(kernel, LeastSquares)
    scores, users = {}, scene.users[:MOST].tolist()
    for number, user in enumerate(users, 1):
        scene.tell(f"{NAME}: {number} of {len(users)}")
        scores[user] = history(scene, kernel, scene.uploads[user], len(scene.truth[user]))
    return [recovered(NAME, SEES, scores, scene.truth, scene.rng(NAME))]


def history(scene: Scene, kernel: LeastSquares, seen: Seen, n: int) -> NDArray[Any]:
    """x of one client, by the sign of w that fits better."""
    shared = {k: np.asarray(v, np.float64) for k, v in scene.now.server.state.shared.items()}
    v, gram, outer = (
        shared[kernel.items],
        shared[kernel.gram],
        np.asarray(seen.dense[kernel.outer], np.float64),
    )
    alpha, lam, scale = kernel.alpha, kernel.lam, 1.0
    if kernel.bounded is not None:
        alpha, lam = shared[kernel.bounded.numbers][:2]
        scale = max(abs(float(seen.dense[kernel.bounded.scale])), 1e-12)
    lam *= n**kernel.scale
    left, sizes, _ = np.linalg.svd(outer, full_matrices=False)
    direction = left[:, 0]
    part = np.linalg.norm(direction[: outer.shape[1]])
    w = direction * math.sqrt(sizes[0] / scale / max(part, 1e-12))
    equations: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for signed in (w, -w):
        columns = ((1 + alpha) - alpha * (v @ signed))[:, None] * v
        known = gram @ signed + lam * (signed - kernel.prior)
        equations.append((columns, known))
    a, b = min(equations, key=lambda one: between_0_and_1(one[0], one[1], TASTE)[1])
    return between_0_and_1(a, b, STEPS)[0]


def between_0_and_1(columns: NDArray[Any], known: NDArray[Any], steps: int) -> tuple[NDArray[Any], float]:
    """min ‖Σ x_j a_j − b‖² over 0 ≤ x ≤ 1, by accelerated projected gradients; and what is left of it."""
    size = max(np.abs(columns).max(), 1e-30)
    a, b = (columns / size).astype(np.float32), (known / size).astype(np.float32)
    step = np.float32(1 / max(float(np.linalg.norm(a.T @ a, 2)), 1e-30))
    x = y = np.zeros(len(a), np.float32)
    t = 1.0
    for _ in range(steps):
        new = np.clip(y - step * (a @ (y @ a - b)), 0, 1)
        further = (1 + math.sqrt(1 + 4 * t * t)) / 2
        y, x, t = new + np.float32((t - 1) / further) * (new - x), new, further
    return x, float(np.linalg.norm(x @ a - b))
