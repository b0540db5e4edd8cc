"""The engine of MetaMF: the server makes a model for each client of a block, clients return gradients,
the server back-propagates them one by one through what made the models.

The network's work for a block of clients is a few matrix products, forward and backward; between the two
stand the clients, whose code (``MetaMF.fit``) sees one client's model and samples and nothing else.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.federated import Federated, Total, View, outgoing
from fedrec.core.gradient import Batch
from fedrec.core.moments import ServerAdam, moment_slots
from fedrec.core.slots import Array, Catalog, Slot
from fedrec.data.split import Split
from fedrec.engine.cohort import blocks
from fedrec.engine.interface import ROWS, Ask, Fitted, Held
from fedrec.engine.samples import Samples, draw_samples, sample_counts
from fedrec.engine.state import State
from fedrec.engine.upload import Upload
from fedrec.methods.metamf import MetaMF

BLOCK_SAMPLES = 65_536
BLOCK_CLIENTS = 64


class Meta:
    """Runs MetaMF's clients, and its server's way back through the network."""

    name = "plain"

    def __init__(self, method: MetaMF, split: Split, seed: int) -> None:
        self.method: Federated = method
        self.meta, self.split, self.seed = method, split, seed
        self.catalog = Catalog(split.n_users, split.n_items)
        self.slots: dict[str, Slot] = method.slots(self.catalog)
        self.uploads: dict[str, Slot] = method.uploads(self.catalog)
        self.sums: dict[str, Slot] = method.network(self.catalog)
        self.sizes = sample_counts(split)

    def blocks(self, users: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return blocks(users, self.sizes, BLOCK_SAMPLES, BLOCK_CLIENTS)

    def _network(self, state: State) -> dict[str, Any]:
        import torch

        torch.set_num_threads(1)  # is kept per thread, and large products are what this engine consists of
        return {name: torch.from_numpy(state.server[name]) for name in self.sums}

    # -- training ------------------------------------------------------------------------------

    def fit(self, state: State, round: int, users: NDArray[np.int64], ask: Ask = ROWS) -> Fitted:
        import torch

        start = time.perf_counter()
        plan = self.method.plan(self.catalog, round)
        samples = draw_samples(self.split, self.seed, round, users, plan)
        (batch,) = (Batch(*map(torch.from_numpy, map(np.ascontiguousarray, b))) for b in samples.passes)
        touched = torch.from_numpy(samples.touched.astype(np.int64))
        chosen = torch.from_numpy(users)
        network = {name: value.requires_grad_() for name, value in self._network(state).items()}
        with torch.enable_grad():
            made = self.meta.generate(network, chosen)
            given = {"items": _rows(made, touched), **{n: made[n] for n in ("w1", "b1", "w2", "b2")}}

        def one(model: Any, batch: Any) -> Any:
            gradient, loss = self.method.fit(model, [batch], plan)
            return outgoing(self.method, self.catalog, self.method.upload({}, gradient)), loss

        with torch.no_grad():
            sent, loss = torch.func.vmap(one)({n: v.detach() for n, v in given.items()}, batch)
        finite = torch.stack([v.reshape(len(v), -1).sum(1) for v in sent.values()]).isfinite().all(0)
        kept = finite.numpy()
        answer: Upload | Total
        if ask.single or not kept.all():
            answer = self._upload(samples, sent).only(kept)
            answer = answer if ask.single else self.backward(state, users[kept], answer)
        else:
            answer = self._pull(network, given, sent, self.method.weight(samples.counts))
        trained = time.perf_counter()
        scores = None if ask.lines is None else self.score(state, Held(users, {}, {}), ask.lines)
        seconds = (trained - start, time.perf_counter() - trained)
        count = int(samples.rows[kept].sum())
        return Fitted(users, {}, loss.numpy(), kept, answer, count, {} if ask.rows else None, scores, seconds)

    def _upload(self, samples: Samples, sent: dict[str, Any]) -> Upload:
        arrays = {name: value.numpy() for name, value in sent.items()}
        items = arrays.pop("items")
        real = np.arange(items.shape[1]) < samples.rows[:, None]
        return Upload(samples.held(), {"items": items[real]}, arrays, self.method.weight(samples.counts))

    def backward(self, state: State, users: NDArray[np.int64], upload: Upload) -> Total:
        """The same for uploads that came through a channel."""
        import torch

        counts = np.diff(upload.held.indptr)
        real = np.arange(max(counts, default=0)) < counts[:, None]
        touched = np.zeros(real.shape, np.int64)
        touched[real] = upload.held.items
        items = np.zeros((*real.shape, self.meta.dim), np.float32)
        items[real] = upload.rows["items"]
        network = {name: value.requires_grad_() for name, value in self._network(state).items()}
        with torch.enable_grad():
            made = self.meta.generate(network, torch.from_numpy(users))
            given = {"items": _rows(made, torch.from_numpy(touched)), **{n: made[n] for n in upload.dense}}
        sent = {"items": items, **upload.dense}
        tensors = {n: torch.from_numpy(np.ascontiguousarray(v, np.float32)) for n, v in sent.items()}
        return self._pull(network, given, tensors, upload.weights)

    def _pull(self, network: Any, given: Any, sent: Any, weights: Array) -> Total:
        """Back-propagate what clients returned through what made their models."""
        import torch

        names, w = list(network), torch.from_numpy(weights)
        pulls = [v * w.reshape(-1, *[1] * (v.dim() - 1)) for v in sent.values()]
        slopes = torch.autograd.grad([given[n] for n in sent], list(network.values()), grad_outputs=pulls)
        sums = {n: slope.numpy() for n, slope in zip(names, slopes, strict=True)}
        return Total(sums, float(weights.sum(dtype=np.float64)), len(weights))

    def welcome(self, state: State, users: NDArray[np.int64], steps: int) -> State:
        """New users: the server learns a vector of each from its gradients, the network stays as it is.

        A vector starts as the mean of those that are known, and moves by Adam with their spread as the scale.
        """
        known = state.server["users"]
        adam, vectors = ServerAdam(float(known.std()) / 4), np.tile(known.mean(0), (self.split.n_users, 1))
        held = {"users": vectors} | {
            name: np.zeros(slot.shape, np.float32)
            for name, slot in moment_slots(self.sums, ["users"], "server").items()
        }
        here = replace(state, server={**state.server, **held})
        for step in range(1, steps + 1):
            slope = np.zeros_like(vectors)
            for block in self.blocks(users) if len(users) else []:
                fitted = self.fit(here, state.round + step, block, Ask(rows=False))
                assert isinstance(fitted.sent, Total)
                slope += fitted.sent.sums["users"]
            here = replace(here, server=adam.move(here.server, {"users": slope}))
        return here

    # -- ranking -------------------------------------------------------------------------------

    def held(self, state: State, round: int, users: NDArray[np.int64], view: View) -> Held:
        return Held(users, {}, {})  # a device holds nothing: its model is made anew for it

    def score(self, state: State, held: Held, items: NDArray[np.int32]) -> Array:
        import torch

        made = self.meta.generate(self._network(state), torch.from_numpy(held.users))
        rows = _rows(made, torch.from_numpy(np.maximum(items, 0).astype(np.int64)))
        return self._scores(made, rows)

    def score_all(self, state: State, held: Held) -> Array:
        import torch

        made = self.meta.generate(self._network(state), torch.from_numpy(held.users))
        return self._scores(made, made["left"] @ made["right"])

    def _scores(self, made: Any, rows: Any) -> Array:
        import torch

        def one(model: Any) -> Any:
            table = self.method.tables(model)
            return self.method.logits(table, torch.arange(rows.shape[1]))

        models = {"items": rows, **{n: made[n] for n in ("w1", "b1", "w2", "b2")}}
        scores: Array = torch.func.vmap(one)(models).numpy()
        return scores


def _rows(made: Any, items: Any) -> Any:
    """Rows of the clients' item tables."""
    import torch

    rank = made["left"].shape[-1]
    return torch.gather(made["left"], 1, items[:, :, None].expand(-1, -1, rank)) @ made["right"]
