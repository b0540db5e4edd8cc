"""IMIA: the server makes up histories, has them trained as the client would, and keeps what looks like the upload.

After Yuan et al., "Interaction-Level Membership Inference Attack Against Federated Recommender Systems", WWW 2023:
items are labelled at random, a shadow client trains on the labels from the same broadcast, and items whose rows came
out as in the real upload are taken to be labelled rightly; their labels are kept for the next turn. Shadows are devices
like any other, through ``Clients``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Ask, Clients
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.upload import Upload
from fedrec.data.clients import ClientData, sorted_distinct
from fedrec.study.attacks import sign
from fedrec.study.attacks.outcome import Outcome, recovered
from fedrec.study.attacks.scene import Scene
from fedrec.study.attacks.shadows import PASSES

NAME = "imia"
SEES = "one upload"
MOST = 40  # targets
SHADOWS, TURNS = 16, 3
KEPT = 0.5  # of the items that look right, so many are in the next made-up history


def why_not(scene: Scene) -> str:
    if scene.now.single:
        return "its server makes something for single clients, which a shadow would have to be given too"
    return sign.why_not(scene)


def attack(scene: Scene) -> list[Outcome]:
    users, rng = scene.users[:MOST].tolist(), scene.rng(NAME)
    rows = {user: _unit(sign.vectors(scene.uploads[user])) for user in users}
    looks = {user: np.zeros(scene.parts.n_items) for user in users}
    for turn in range(TURNS):
        scene.tell(f"{NAME}: turn {turn + 1} of {TURNS}")
        guesses = [
            made_up(rows[user], looks[user], len(scene.truth[user]), turn, rng)
            for user in users
            for _ in range(SHADOWS)
        ]
        agreed = alike(scene, guesses, [rows[user] for user in users for _ in range(SHADOWS)])
        for place, user in enumerate(users):
            mine = slice(place * SHADOWS, (place + 1) * SHADOWS)
            total, count = np.zeros((2, scene.parts.n_items))
            for guess, found in zip(guesses[mine], agreed[mine], strict=True):
                total[guess] += found
                count[guess] += 1
            looks[user] = np.where(count > 0, total / np.maximum(count, 1), looks[user])
    touched = {user: rows[user].any(axis=1) for user in users}
    scores = {user: np.where(touched[user], looks[user], -np.inf) for user in users}
    return [recovered(NAME, SEES, scores, scene.truth, rng)]


def made_up(
    rows: NDArray[Any], looks: NDArray[Any], n: int, turn: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """A history of n items out of those with a row: some that look right, the rest by luck."""
    possible = np.flatnonzero(rows.any(axis=1))
    n = min(n, len(possible))
    kept = possible[:0]
    if turn:
        best = possible[np.argsort(-looks[possible], kind="stable")[:n]]
        kept = rng.choice(best, int(KEPT * len(best)), replace=False)
    rest = np.setdiff1d(possible, kept)
    return np.concatenate([kept, rng.choice(rest, n - len(kept), replace=False)])


def alike(
    scene: Scene, guesses: list[NDArray[np.int64]], seen: list[NDArray[Any]]
) -> list[NDArray[np.float64]]:
    """For each item of each made-up history the cosine of its row, as a shadow sends it, with the row that was seen."""
    server = scene.now.server
    train = Ragged(run_ends(np.array([len(g) for g in guesses])), np.concatenate(guesses).astype(np.int32))
    met = sorted_distinct(*train)
    keys = scene.rng(f"{NAME} keys").integers(1, 2**63, len(guesses)).astype(np.uint64)
    negatives = scene.parts.protocol.negatives_per_positive
    data = ClientData(keys, train, met, met, scene.parts.n_items, negatives)
    shadows = Clients(
        scene.method, data, server.catalog, scene.config.seed,
        secret=scene.config.seed + 1, engine=scene.config.engine, threads=scene.threads,
    )  # fmt: skip
    told = server.broadcast(scene.rounds)
    shadows.join(told, PASSES)
    found: list[NDArray[np.float64]] = [np.zeros(len(g)) for g in guesses]
    for answer in shadows.fit(told, shadows.everyone, Ask(single=True)):
        sent = answer.reply.sent
        assert isinstance(sent, Upload)
        for place, shadow in enumerate(answer.reply.users.tolist()):
            one = scene.split_up(sent.one(place).whole(server.uploads).rows)
            rows = _unit(sign.vectors(one))
            guess = guesses[shadow]
            found[shadow] = (rows[guess] * seen[shadow][guess]).sum(axis=1)
    shadows.drop()
    return found


def _unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0))
