"""Likelihood ratios with shadow runs: many federations in which coins say who, or what, takes part.

After LiRA (Carlini et al., "Membership Inference Attacks From First Principles", IEEE S&P 2022): what an adversary
measures of a person in a released model is normal with one mean in runs with the person and another in runs without;
the shadow runs tell both, and runs that were kept apart are judged. All runs start from the same public numbers, and
each draws noise of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Ask, Clients
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids
from fedrec.data.split import Split
from fedrec.study.attacks.outcome import Outcome, Trials, told_apart
from fedrec.study.attacks.scene import Scene

PASSES = 5  # over a history, where an adversary trains what a device keeps to itself


def judged(scene: Scene) -> int:
    """Runs that are judged, beside the shadows."""
    return max(scene.shadows // 4, 2)


def released(scene: Scene, parts: Split, present: Ids, draw: int) -> Broadcast:
    """The tables after all rounds of a federation of some users, whose noise hangs on ``draw``."""
    simulation = scene.simulation(parts)
    server, clients = simulation.server, simulation.clients
    server.seed += (
        1 + draw
    )  # tables have begun already, from the public seed: what is left is noise and cohorts
    for number in range(1, scene.rounds + 1):
        users = server.cohort(number)
        for turn, group in enumerate(server.groups(number, users[np.isin(users, present)])):
            total = server.empty()
            for answer in clients.fit(
                server.broadcast(number), group, Ask(simulation.single), server.receive
            ):
                total.add(answer.reply.sent)  # type: ignore[arg-type]
            server.step(total, number, turn)
        clients.keep()
        server.finish(number)
    return server.standing()


def scores_of(devices: Clients, told: Broadcast, users: Ids) -> NDArray[np.float64]:
    """Scores of the whole catalogue by devices that learn what is private from their histories, the tables fixed.

    As deviations from a device's mean: what one model calls high is not what another does.
    """
    before = devices.state
    devices.state = before.copy()
    devices.join(told, PASSES)
    found = devices.score(told.shared, devices.part(told, users, own=False)).astype(np.float64)
    devices.state = before
    spread = np.maximum(found.std(axis=1, keepdims=True), 1e-12)
    return np.asarray((found - found.mean(axis=1, keepdims=True)) / spread)


def why_not(scene: Scene) -> str:
    if scene.now.single:
        return "its server makes something for single clients: there is no model that all are given"
    return ""


def coins(scene: Scene, people: int, purpose: str) -> NDArray[np.bool_]:
    """(runs, people): everybody takes part in half of the shadow runs; in those that are judged by luck alone."""
    rng, runs = scene.rng(purpose), scene.shadows
    half = np.arange(runs) % 2 == 0
    known = np.array([rng.permutation(half) for _ in range(people)]).T
    return np.concatenate([known, rng.random((judged(scene), people)) < 0.5])


def lira(
    scene: Scene,
    name: str,
    sees: str,
    thrown: NDArray[np.bool_],
    run: Callable[[int], NDArray[np.float64]],
    histories: int,
) -> Outcome:
    """Plays all runs; ``run`` gives a statistic per person. ``histories``: how many times a user's data change."""
    found = []
    for number in range(len(thrown)):
        scene.tell(f"{name}: run {number + 1} of {len(thrown)}")
        found.append(run(number))
    delta, allowed = scene.allowed(histories)
    note = f"{scene.shadows} shadow runs, {len(thrown) - scene.shadows} judged"
    return told_apart(name, sees, ratios(np.array(found), thrown, scene.shadows), delta, allowed, note)


def ratios(statistics: NDArray[np.float64], coins: NDArray[np.bool_], shadows: int) -> Trials:
    """How much likelier each statistic of the judged runs is with the person than without.

    Both are (runs, people); the first rows are the shadows.
    """
    seen, coin = statistics[:shadows], coins[:shadows]
    ins, outs = (np.maximum(c.sum(axis=0), 1) for c in (coin, ~coin))
    with_, without = (seen * coin).sum(axis=0) / ins, (seen * ~coin).sum(axis=0) / outs
    rest = np.where(coin, seen - with_, seen - without)
    spread = (rest**2).sum(axis=0) / max(shadows - 2, 1)
    spread = np.maximum(spread, 1e-12 + 1e-6 * spread.mean())
    x = statistics[shadows:]
    scores = ((x - without) ** 2 - (x - with_) ** 2) / (2 * spread)
    judged = coins[shadows:]
    who = np.broadcast_to(np.arange(x.shape[1]), x.shape)
    return Trials(scores.ravel(), judged.ravel(), who.ravel())
