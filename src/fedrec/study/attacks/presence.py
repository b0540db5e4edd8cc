"""Was this user in the sum? Asked by somebody who knows the uploads of everyone, this user's too.

A coin says whether the user took part; the statistic is how far the released sum, less all others, goes along the
user's upload: for Gaussian noise the best there is (Nasr et al., "Tight Auditing of Differentially Private Machine
Learning", USENIX Security 2023). Noise is drawn anew for every coin, so that guesses are independent.
"""

from __future__ import annotations

import numpy as np

from fedrec.core.upload import Total
from fedrec.study.attacks.outcome import Outcome, Trials, told_apart
from fedrec.study.attacks.scene import Scene

NAME = "presence"
SEES = "the sum, all uploads known"
TRIALS = 400


def why_not(scene: Scene) -> str:
    if scene.now.server.cohort_size < scene.parts.n_users:
        return "clients are sampled, and nobody is told who: the game would be another one"
    return "its server adds nothing up: it looks at single uploads" if scene.now.single else ""


def attack(scene: Scene) -> list[Outcome]:
    everyone, rng = np.arange(scene.parts.n_users), scene.rng(NAME)
    whole = scene.total(everyone)
    coins = rng.permutation(np.arange(TRIALS) % 2 == 0)
    asked = scene.users[np.arange(TRIALS) % len(scene.users)]
    own = {int(user): scene.total(np.array([user])) for user in scene.users}
    scores = np.zeros(TRIALS)
    for trial, (user, inside) in enumerate(zip(asked, coins, strict=True)):
        if trial % 20 == 0:
            scene.tell(f"{NAME}: {trial} of {TRIALS}")
        mine = own[int(user)]
        others = _less(whole, mine)
        scores[trial] = along(scene, scene.released(whole if inside else others, trial), others, mine)
    delta, allowed = scene.allowed(1)
    return [told_apart(NAME, SEES, Trials(scores, coins, np.arange(TRIALS)), delta, allowed)]


def _less(whole: Total, one: Total) -> Total:
    sums = {n: v - one.sums[n] for n, v in whole.sums.items()}
    return Total(sums, whole.weight - one.weight, whole.clients - one.clients)


def along(scene: Scene, released: Total, others: Total, mine: Total) -> float:
    """⟨released − others, upload⟩ over the upload's squared norm, parts counted as the noise counts them."""
    grid, uploads = scene.now.server.grid, scene.now.server.uploads
    rest, own = (total if grid is None else grid.opened(total) for total in (others, mine))
    product = square = 0.0
    for name, values in own.sums.items():
        weight, g = uploads.norm(name) ** 2, values.astype(np.float64)
        product += weight * float(((released.sums[name].astype(np.float64) - rest.sums[name]) * g).sum())
        square += weight * float((g * g).sum())
    return product / max(square, 1e-30)
