"""Loss landscapes: the loss on a plane through the shared parameters of a trained model.

As Figures 1 and 3 of FedRecGEL (Yu et al., WWW 2026) show it, after Li et al., "Visualizing the Loss
Landscape of Neural Nets", NeurIPS 2018: two random directions, orthogonal, of zero mean, each row as
long as the model's own row. A radius of 0.5 therefore moves every row by half of its length, whatever
the scale of the model, and landscapes of different models can be laid side by side. Biases and single
numbers stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Clients
from fedrec.clients.engine import RankingPart
from fedrec.clients.state import DeviceState
from fedrec.core.blocks import in_order
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Phase
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids
from fedrec.core.rng import generator
from fedrec.core.slots import Array, Arrays
from fedrec.data.clients import ClientData
from fedrec.data.samples import draw_samples
from fedrec.runs.run import Run
from fedrec.study.collapse import simulation_of

LANDSCAPE = "landscape"
LEAST_WIDTH = 3  # narrower rows cannot hold two orthogonal directions of zero mean


@dataclass(frozen=True)
class Landscape:
    """``loss[i, j]`` is the mean loss at model + ``steps[i]`` · first + ``steps[j]`` · second direction."""

    steps: NDArray[np.float64]
    loss: NDArray[np.float64]
    radius: float
    clients: int
    seed: int

    @property
    def centre(self) -> float:
        """The loss of the model itself."""
        middle = len(self.steps) // 2
        return float(self.loss[middle, middle])

    @property
    def rise(self) -> float:
        """How much higher the loss is on the rim than at the centre, on average: the smaller, the flatter."""
        rim = np.ones_like(self.loss, bool)
        rim[1:-1, 1:-1] = False
        return float(self.loss[rim].mean() - self.centre)


def landscape(
    run: Run,
    radius: float = 1.0,
    points: int = 21,
    clients: int = 100,
    seed: int = 0,
    samples: int | None = None,
) -> Landscape:
    """The landscape of the round that a federated run selected, over ``clients`` sampled clients.

    ``samples``: at most so many of each client, drawn at random, where an impression is enough.

    Clients, their samples and the directions are functions of ``seed`` alone: models trained on the
    same split are measured on the same positives and negatives. The loss is mean cross-entropy of the
    scores for every method, without the terms that a method adds; private arrays stay as trained.
    """
    simulation = simulation_of(run, "a landscape")
    if not 0 < radius <= 100:
        raise FedrecError(f"radius={radius} makes no plane: give a number above 0, at most 100")
    if points < 21 or points % 2 == 0:
        raise FedrecError(
            f"points={points} per side is not enough of a grid: give an odd number of at least 21"
        )
    if clients < 1:
        raise FedrecError(f"clients={clients} samples nobody: ask for at least one")
    assert simulation.selected is not None
    moment, devices, split = simulation.selected.moment, simulation.clients, simulation.split
    now = simulation.server.standing(moment.server)
    rng = generator(seed, f"{LANDSCAPE} clients")
    users = np.sort(rng.choice(split.n_users, min(clients, split.n_users), replace=False))
    blocks = [
        (_part(devices, now, block, moment.devices), *_samples(devices.data, block, seed, samples))
        for block in devices.engine.blocks(users)
    ]
    ways = directions(now.shared, seed)
    steps = np.linspace(-radius, radius, points)
    steps[points // 2] = 0.0  # the model itself, to the bit

    def at(point: tuple[np.float32, np.float32]) -> float:
        shared = _moved(now.shared, ways, *point)
        sums = [
            _loss(devices.score(shared, part, items), labels, items >= 0) for part, items, labels in blocks
        ]
        return sum(total for total, _ in sums) / sum(count for _, count in sums)

    plane = list(product(steps.astype(np.float32), repeat=2))
    loss = np.array(list(in_order(at, plane, devices.threads))).reshape(points, points)
    return Landscape(steps, loss, radius, len(users), seed)


def _part(devices: Clients, now: Broadcast, users: Ids, state: DeviceState) -> RankingPart:
    """What is private to them, tables too; shared rows as they tuned them would not move with the plane."""
    part = devices.part(now, users, own=True, state=state)
    return replace(part, rows={name: rows for name, rows in part.rows.items() if name not in now.shared})


def directions(shared: Arrays, seed: int) -> tuple[Arrays, Arrays]:
    """Two random directions: each row of zero mean, at right angles to the other's, as long as the model's."""
    first, second = {}, {}
    for name, values in shared.items():
        if values.ndim < 2 or values.shape[-1] < LEAST_WIDTH:
            first[name] = second[name] = np.zeros_like(values)
            continue
        rng = generator(seed, f"{LANDSCAPE} {name}")
        a, b = (_zero_mean(rng.standard_normal(values.shape)) for _ in range(2))
        a /= _length(a)
        b -= (a * b).sum(-1, keepdims=True) * a
        scale = _length(values.astype(np.float64))
        first[name] = (a * scale).astype(np.float32)
        second[name] = (b / _length(b) * scale).astype(np.float32)
    return first, second


def _moved(shared: Arrays, ways: tuple[Arrays, Arrays], x: np.float32, y: np.float32) -> Arrays:
    return {n: v + x * ways[0][n] + y * ways[1][n] for n, v in shared.items()}


def _samples(
    data: ClientData, users: NDArray[np.int64], seed: int, most: int | None
) -> tuple[NDArray[np.int32], Array]:
    """A line of items per client, padded with -1, and their labels: positives and negatives of a round 0."""
    drawn = draw_samples(data, seed, 0, users, [Phase(groups=())])
    order = drawn.passes[0]
    items = np.take_along_axis(drawn.touched, order.items.astype(np.int64), axis=1)
    some = slice(most)  # a pass is in random order
    return np.where(order.mask > 0, items, -1).astype(np.int32)[:, some], order.labels[:, some]


def _loss(scores: Array, labels: Array, real: NDArray[np.bool_]) -> tuple[float, int]:
    """The sum of cross-entropies, and of how many."""
    x = scores.astype(np.float64)
    terms = np.logaddexp(0, x) - labels * x
    return float(terms[real].sum()), int(real.sum())


def _zero_mean(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x - x.mean(-1, keepdims=True)


def _length(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.linalg.norm(x, axis=-1, keepdims=True)
