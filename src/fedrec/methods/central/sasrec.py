"""SASRec: a transformer over a user's history in order, centralised; the sequential yardstick.

Kang & McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018, with the settings of its experiments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numba as nb
import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.core.blocks import in_order
from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ids, Ragged
from fedrec.core.rng import bits
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, constant, server, uniform, zeros
from fedrec.data.clients import ClientData
from fedrec.data.sequences import Sequences, draw_sequences
from fedrec.methods.central.adam import Adam, with_moments, without_moments
from fedrec.methods.central.base import CentralInRounds

LONG, SHORT = 200, 50  # lengths of the paper: MovieLens-1M, and its sparse sets
GROUP = 16  # sequences computed together: of similar length, and small enough for the cache
BETAS = (0.9, 0.98)
EPSILON = 1e-8  # of a layer norm


class SASRec(CentralInRounds):
    """From the newest items of a history, which item comes next: logit = state · item.

    A round takes every user once: at each place the next item against one not trained on, by cross-entropy.
    """

    name: ClassVar[str] = "sasrec"
    citation: ClassVar[str] = "Kang, McAuley: Self-Attentive Sequential Recommendation, ICDM 2018"
    use_when: ClassVar[str] = "the accuracy to aim at where all data are in one place and their order tells"
    ranks_from_history: ClassVar[bool] = True

    dim: Annotated[int, Search(16, 128, log=True)] = Field(
        50, ge=1, le=4096, description="length of all vectors"
    )
    blocks: int = Field(2, ge=1, le=64, description="self-attention blocks, one head each")
    length: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="newest items that are seen; auto: 200 where users have 50 on average, else 50"
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = Field(
        "auto", description="share of units left out in training; auto: 0.2 where length is over 50, else 0.5"
    )
    lr: Annotated[float, Search(0.0001, 0.01, log=True)] = Field(
        0.001, gt=0, description="learning rate of Adam, betas 0.9 and 0.98"
    )
    batch_size: int = Field(128, ge=1, description="users per step")

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        if not catalog.ordered:
            raise FedrecError(
                "sasrec learns from the order of things and these data have none: use ease or ials"
            )
        d, n = self.dim, self.length
        if n == "auto":
            n = LONG if catalog.positives >= SHORT else SHORT
        model = {"items": _glorot(catalog.n_items, d), "positions": _glorot(n, d)}
        for b in range(self.blocks):
            for layer in ("query", "key", "value", "in", "out"):
                model[f"{layer}{b}"] = _glorot(d, d)
                model[f"{layer}{b}.bias"] = server(d, start=zeros())
        for norm in (*(f"{what}{b}" for b in range(self.blocks) for what in ("attend", "feed")), "last"):
            model[f"{norm}.scale"] = server(d, start=constant(1.0))
            model[f"{norm}.shift"] = server(d, start=zeros())
        return with_moments(model)

    def draw(self, data: ClientData, seed: int, round: int) -> Sequences:
        return draw_sequences(data, seed, round)

    def one_pass(self, held: Arrays, samples: Sequences, threads: int = 1) -> tuple[Arrays, float]:
        n = len(held["positions"])
        share = (0.2 if n > SHORT else 0.5) if self.dropout == "auto" else self.dropout
        adam, dropout = Adam(held, self.lr, BETAS), Dropout(share, samples.key)
        total, count = 0.0, 0
        for start in range(0, len(samples.order), self.batch_size):
            users = samples.order[start : start + self.batch_size]
            loss, places = self._step(adam, samples, users, n, dropout, threads)
            total, count = total + loss, count + places
        return adam.held(), total / max(count, 1)

    def _step(
        self, adam: Adam, samples: Sequences, users: Ids, n: int, dropout: Dropout, threads: int
    ) -> tuple[float, int]:
        """One step by some users' sequences; their summed loss, and over how many places.

        Gradients of groups are added in the order of the groups: the same bits on any number of threads.
        """
        lengths = np.minimum(samples.histories.counts(users), n + 1)
        places = int(lengths.sum()) - len(users)
        groups = [(g, dropout.part(self._units(len(g), int(lengths[g].max()) - 1))) for g in _groups(lengths)]

        def work(group: tuple[Ids, Dropout]) -> tuple[float, Any]:
            at, own = group
            rows = _padded(samples.histories, users[at], n + 1)
            others = _padded(Ragged(samples.histories.indptr, samples.negatives), users[at], n + 1)
            loss = self._loss(adam.model, rows, others, lengths[at] - 1, own)
            return loss.item(), adam.gradients(loss / places)

        total = 0.0
        for loss, gradients in in_order(work, groups, threads):
            adam.add(gradients)
            total += loss
        adam.step()
        return total, places

    def _units(self, sequences: int, width: int) -> int:
        """Units that dropout may leave out: inputs, and in each block weights, inner and outer layer."""
        return sequences * width * (self.dim + self.blocks * (width + 2 * self.dim))

    def _loss(self, model: dict[str, Any], rows: Any, others: Any, places: Any, dropout: Dropout) -> Any:
        """Summed over the places of some sequences: the item that came next, and one that did not."""
        import torch
        from torch.nn.functional import embedding, softplus

        real = torch.from_numpy(np.arange(rows.shape[1] - 1) < places[:, None])
        x = states(model, self.blocks, rows[:, :-1], places, dropout)[real]
        wanted, other = rows[:, 1:][real], others[:, 1:][real]
        positive = (x * embedding(wanted, model["items"])).sum(-1)
        negative = (x * embedding(other.clamp(min=0), model["items"])).sum(-1)
        return softplus(-positive).sum() + softplus(negative)[other >= 0].sum()

    def scorer(self, held: Arrays, histories: Ragged) -> Attentive:
        return Attentive(without_moments(held), self.blocks, histories)


def states(
    model: dict[str, Any], blocks: int, rows: Any, lengths: Any, left_out: Callable[[Any], Any] = lambda x: x
) -> Any:
    """What is known at each place of some sequences: from its item and those before it.

    Sequences start in the first column, and what fills them up at the end is seen by no real place. Positions count
    from the newest item, so it is the same as filling them up at the start.
    """
    import torch
    from torch.nn.functional import embedding, layer_norm, linear, relu

    def norm(x: Any, name: str) -> Any:
        return layer_norm(x, x.shape[-1:], model[f"{name}.scale"], model[f"{name}.shift"], EPSILON)

    def layer(x: Any, name: str) -> Any:
        return linear(x, model[name], model[f"{name}.bias"])

    items, positions = model["items"], model["positions"]
    root, n, width = math.sqrt(items.shape[1]), len(positions), rows.shape[1]
    at = (n - torch.from_numpy(lengths)[:, None] + torch.arange(width)).clamp(max=n - 1)
    later = torch.full((width, width), -math.inf).triu(1)
    x = left_out(embedding(rows, items) * root + embedding(at, positions))
    for b in range(blocks):
        q = norm(x, f"attend{b}")
        query, key, value = layer(q, f"query{b}"), layer(x, f"key{b}"), layer(x, f"value{b}")
        near = torch.baddbmm(later, query, key.mT, alpha=1 / root).softmax(-1)
        x = norm(q + left_out(near) @ value, f"feed{b}")
        x = x + left_out(layer(left_out(relu(layer(x, f"in{b}"))), f"out{b}"))
    return norm(x, "last")


class Dropout:
    """Leaves out a share of units, and makes the others larger by as much.

    Drawn from the pass's own stream: the same on every machine, and several times faster than PyTorch's.
    """

    def __init__(self, share: float, key: int, drawn: int = 0) -> None:
        self.share, self.key, self.drawn = share, key, drawn

    def part(self, units: int) -> Dropout:
        """Its own stretch of the stream for so many units, whoever draws first."""
        start, self.drawn = self.drawn, self.drawn + units
        return Dropout(self.share, self.key, start)

    def __call__(self, x: Any) -> Any:
        import torch

        kept = np.empty(x.shape, np.float32)
        _draw_kept(np.uint64(self.key), self.drawn, self.share, kept.reshape(-1))
        self.drawn += kept.size
        return x * torch.from_numpy(kept)


@nb.njit(cache=True, nogil=True)
def _draw_kept(key: Any, start: int, share: float, out: Any) -> None:
    """Four units from each number of the stream: 16 bits say whether one is left out."""
    least = np.uint64(round(share * 65536))
    scale = np.float32(65536 / (65536 - least))
    k = np.uint64(start)
    for i in range(0, len(out) - 3, 4):
        drawn = bits(key, k)
        k += np.uint64(1)
        for j in range(4):
            part = (drawn >> np.uint64(16 * j)) & np.uint64(65535)
            out[i + j] = scale if part >= least else np.float32(0)
    drawn = bits(key, k)
    for i in range(len(out) - len(out) % 4, len(out)):
        out[i] = scale if (drawn >> np.uint64(16 * (i % 4))) & np.uint64(65535) >= least else np.float32(0)


@dataclass(frozen=True, eq=False)
class Attentive:
    """Scores from the newest items of histories: those of training, or others."""

    held: Arrays
    blocks: int
    histories: Ragged

    @property
    def items(self) -> Array:
        return self.held["items"]

    @cached_property
    def _model(self) -> dict[str, Any]:
        import torch

        return {name: torch.from_numpy(values) for name, values in self.held.items()}

    def knowing(self, histories: Ragged) -> Attentive:
        """The same where these are the histories, oldest first."""
        return Attentive(self.held, self.blocks, histories)

    def ready(self, users: Ids) -> Ready:
        return Ready(self._last(users), self.items)

    def some(self, users: Ids, items: NDArray[np.int32]) -> Array:
        return self.ready(users).some(users, items)

    def all(self, users: Ids) -> Array:
        return self.ready(users).all(users)

    def _last(self, users: Ids) -> Array:
        """The state after the newest item; zeros where there is none."""
        import torch

        n = len(self.held["positions"])
        lengths = np.minimum(self.histories.counts(users), n)
        last = np.zeros((len(users), self.items.shape[1]), np.float32)
        for group in _groups(lengths):
            group = group[lengths[group] > 0]
            if len(group):
                rows = _padded(self.histories, users[group], n)
                with torch.inference_mode():
                    found = states(self._model, self.blocks, rows, lengths[group])
                last[group] = found.numpy()[np.arange(len(group)), lengths[group] - 1]
        return last


@dataclass(frozen=True, eq=False)
class Ready:
    """Some users' states, computed once; asked for these users in this order."""

    last: Array
    items: Array

    def some(self, users: Ids, items: NDArray[np.int32]) -> Array:
        found: Array = np.einsum("ud,ucd->uc", self.last, self.items[items])
        return found

    def all(self, users: Ids) -> Array:
        return self.last @ self.items.T


def _groups(lengths: NDArray[np.int64]) -> Iterator[Ids]:
    """Sequences of similar length together: what fills up the shorter ones is work for nothing."""
    order = np.argsort(lengths, kind="stable")
    for start in range(0, len(order), GROUP):
        yield order[start : start + GROUP]


def _padded(runs: Ragged, users: Ids, most: int) -> Any:
    """The newest of each run as rows of a tensor, oldest first, filled up with item 0."""
    import torch

    ends = runs.indptr[users + 1]
    counts = np.minimum(runs.counts(users), most)
    columns = np.arange(counts.max())
    at = (ends - counts)[:, None] + columns
    rows = np.where(columns < counts[:, None], runs.items[np.minimum(at, len(runs.items) - 1)], 0)
    return torch.from_numpy(rows)


def _glorot(rows: int, columns: int) -> Slot:
    """As the paper's code starts all of its tables (Glorot & Bengio, 2010)."""
    return server(rows, columns, start=uniform(math.sqrt(6 / (rows + columns))))
