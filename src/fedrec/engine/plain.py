"""The plain engine: a method's PyTorch code for one client, run for a block of clients at once.

``torch.func.vmap`` turns the single-client code into code over stacked clients. Each holds compact
tables of its touched rows only; clients of similar size stand together so that little is padding.
This engine is the meaning of every method; the fused one must agree with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View, outgoing
from fedrec.core.gradient import Batch, GradientMethod, Phase
from fedrec.core.slots import Array, Catalog, Slot
from fedrec.data.split import Split
from fedrec.engine.cohort import blocks
from fedrec.engine.interface import ROWS, WILD, Ask, Fitted, Held
from fedrec.engine.samples import Samples, draw_samples, sample_counts
from fedrec.engine.state import State, freshly, localized, starting
from fedrec.engine.store import Kept, Own, Rows, overlay
from fedrec.engine.upload import Upload, summed

BLOCK_SAMPLES = 32_768  # padded samples per block: its rows stay in cache
BLOCK_CLIENTS = 128
TILE = 2048  # items scored at once when a client's own rows rank the whole catalogue


class Plain:
    """Runs clients of one method on one split."""

    name = "plain"

    def __init__(self, method: Federated, split: Split, seed: int, local: bool = False) -> None:
        try:
            import torch
        except ImportError:
            raise FedrecError(
                f"{method.label} runs on PyTorch, which is not installed: pip install 'fedrec[torch]'"
            ) from None
        torch.set_num_threads(1)  # blocks run on threads of our own; torch's would change the last bits
        self.method, self.split, self.seed = method, split, seed
        self.catalog = Catalog(split.n_users, split.n_items)
        slots = method.slots(self.catalog)
        self.slots: dict[str, Slot] = localized(slots) if local else slots
        self.uploads: dict[str, Slot] = {} if local else method.uploads(self.catalog)
        self.sizes = sample_counts(split, method.negatives)
        # Rows that a device keeps, before it first touches them: the same for all.
        self.untouched = {n: starting(n, s, seed) for n, s in self._named("private", rows=True).items()}

    def _named(self, owner: str, rows: bool) -> dict[str, Slot]:
        return {n: s for n, s in self.slots.items() if s.owner == owner and s.rows == rows}

    def blocks(self, users: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        return blocks(users, self.sizes, BLOCK_SAMPLES, BLOCK_CLIENTS)

    # -- training ------------------------------------------------------------------------------

    def fit(self, state: State, round: int, users: NDArray[np.int64], ask: Ask = ROWS) -> Fitted:
        start = time.perf_counter()
        plan = self.method.plan(self.catalog, round)
        samples = draw_samples(self.split, self.seed, round, users, plan, self.method.negatives)
        before, after, sent, loss = self._train(state, round, samples, plan, own={})
        finite = _finite([loss, *sent.values(), *(after[n] for n in before)])
        if isinstance(self.method, GradientMethod):  # whose losses are means over samples; others are sums
            finite &= np.abs(loss) < WILD
        if not finite.all():
            after = {n: _where(finite, v, before[n]) for n, v in after.items() if n in before}
        held = samples.held()
        real = np.arange(samples.touched.shape[1]) < samples.rows[:, None]
        upload = Upload(
            held=held,
            rows={n: v[real] for n, v in sent.items() if self.uploads[n].rows},
            dense={n: v for n, v in sent.items() if not self.uploads[n].rows},
            weights=self.method.weight(samples.counts),
        ).only(finite)
        upload = upload.moved() if self.method.sparse else upload
        if upload.rows:
            upload = self._leaving(upload, round, users[finite], samples.counts[finite])
        device = ("private", "fresh")
        private = {n: after[n] for n, s in self.slots.items() if s.owner in device and not s.rows}
        tuned = {
            n: Rows(held, after[n][real])
            for n, s in self.slots.items()
            if s.rows and s.owner in ("shared", "private")
        }
        trained = time.perf_counter()
        scores = None if ask.lines is None else self.score(state, Held(users, private, tuned), ask.lines)
        return Fitted(
            users,
            private,
            loss,
            finite,
            sent=upload if ask.single else summed(upload, self.uploads),
            rows_sent=len(upload.held.items),
            rows=tuned if ask.rows else None,
            scores=scores,
            seconds=(trained - start, time.perf_counter() - trained),
        )

    def _train(
        self, state: State, round: int, samples: Samples, plan: list[Phase], own: Mapping[str, Own]
    ) -> tuple[dict[str, Array], dict[str, Array], dict[str, Array], Array]:
        """Local training from a state: arrays before and after, the upload, the loss."""
        import torch

        users = samples.users
        private = {n: state.private[n][users] for n in self._named("private", rows=False)}
        for name in self._named("private", rows=True):
            private[name] = state.rows[name].over(self.untouched[name], users, samples.touched)
        for name, slot in self._named("fresh", rows=False).items():
            private[name] = self._fresh(name, slot, round, users)
        shared = {
            n: overlay(state.shared[n], own.get(n), samples.touched) for n in self._named("shared", rows=True)
        }
        whole = {n: state.shared[n] for n in self._named("shared", rows=False)}

        plan = _with_least(plan, samples)

        def one(shared: Any, whole: Any, private: Any, passes: Any) -> Any:
            received = {**shared, **whole}
            p, loss = self.method.fit(self.method.receive(received, private), passes, plan)
            upload = outgoing(self.method, self.catalog, self.method.upload(received, p)) if received else {}
            return (
                {n: p[n] for n in self.slots if n in p},
                upload,
                loss,
            )

        run = torch.func.vmap(one, in_dims=(0, None, 0, 0))
        passes = [Batch(*map(torch.from_numpy, map(np.ascontiguousarray, batch))) for batch in samples.passes]
        with torch.no_grad():
            inputs = _tensors({**private, **self._given(state, samples)})
            after, upload, loss = run(_tensors(shared), _tensors(whole), inputs, passes)
        clients = len(users)
        before = {
            **shared,
            **private,
            **{n: np.broadcast_to(v, (clients, *v.shape)) for n, v in whole.items()},
        }
        return before, _arrays(after), _arrays(upload), loss.numpy()

    def _given(self, state: State, samples: Samples) -> dict[str, Array]:
        """What devices are given besides the shared state, and do not keep; a line per client."""
        return {}

    def _leaving(
        self, upload: Upload, round: int, users: NDArray[np.int64], counts: NDArray[np.int64]
    ) -> Upload:
        """What devices do to their uploads as part of the method itself."""
        return upload

    def _fresh(self, name: str, slot: Slot, round: int, users: NDArray[np.int64]) -> Array:
        return np.repeat(freshly(name, slot, self.seed, round)[None], len(users), axis=0)

    # -- ranking -------------------------------------------------------------------------------

    def held(self, state: State, round: int, users: NDArray[np.int64], view: View) -> Held:
        """What devices rank with outside of a round, from the state alone."""
        own = {n: Kept(store, users) for n, store in state.rows.items()} if view != "global" else {}
        private = {n: state.private[n][users] for n in self._named("private", rows=False)}
        if self._named("fresh", rows=False):
            private |= self._reconstruct(state, round, users, own)
        return Held(users, private, own)

    def _reconstruct(
        self, state: State, round: int, users: NDArray[np.int64], own: Mapping[str, Own]
    ) -> dict[str, Array]:
        """Train the fresh slots alone, on all of the device's samples, everything else as it is."""
        fresh = set(self._named("fresh", rows=False))
        phases = [
            p for p in self.method.plan(self.catalog, round) if all(fresh >= set(g.names) for g in p.groups)
        ]
        plan = [replace(phase, part="all") for phase in phases]
        samples = draw_samples(self.split, self.seed, round, users, plan, self.method.negatives)
        _, after, _, _ = self._train(state, round, samples, plan, own)
        return {n: after[n] for n in fresh}

    def score(self, state: State, held: Held, items: NDArray[np.int32]) -> Array:
        """Scores of a line of items per device; -1 is padding."""
        import torch

        tables = {n: overlay(self._table(state, n), held.rows.get(n), items) for n in self._tables()}
        whole = {n: state.shared[n] for n in self._named("shared", rows=False)}
        index = torch.arange(items.shape[1])
        return self._scores({**tables, **held.private}, whole, index)

    def score_all(self, state: State, held: Held) -> Array:
        """Scores of the whole catalogue."""
        import torch

        whole = {n: state.shared[n] for n in self._named("shared", rows=False)}
        tables = self._tables()
        if not any(n in held.rows for n in tables):  # the same rows for all: one matrix product
            common = {n: self._table(state, n) for n in tables}
            return self._scores(held.private, {**whole, **common}, torch.arange(self.split.n_items))
        out = np.empty((len(held.users), self.split.n_items), np.float32)
        for start in range(0, self.split.n_items, TILE):
            tile = np.arange(start, min(start + TILE, self.split.n_items), dtype=np.int32)
            out[:, tile] = self.score(state, held, np.broadcast_to(tile, (len(held.users), len(tile))).copy())
        return out

    def _tables(self) -> list[str]:
        return [n for n, s in self.slots.items() if s.rows and s.owner in ("shared", "private")]

    def _table(self, state: State, name: str) -> Array:
        return state.shared[name] if name in state.shared else self.untouched[name]

    def _scores(self, each: dict[str, Array], common: dict[str, Array], index: Any) -> Array:
        import torch

        def one(each: Any, common: Any) -> Any:
            return self.method.logits(self.method.tables({**each, **common}), index)

        with torch.no_grad():
            return torch.func.vmap(one, in_dims=(0, None))(_tensors(each), _tensors(common)).numpy()


def _with_least(plan: list[Phase], samples: Samples) -> list[Phase]:
    at = iter(samples.passes)
    known = []
    for phase in plan:
        first, *_ = [next(at) for _ in range(phase.epochs)]
        known.append(replace(phase, least=int(first.mask.sum(axis=1).min())))
    return known


def _tensors(arrays: dict[str, Array]) -> dict[str, Any]:
    import torch

    return {n: torch.from_numpy(np.ascontiguousarray(v)) for n, v in arrays.items()}


def _arrays(tensors: dict[str, Any]) -> dict[str, Array]:
    return {n: v.numpy() for n, v in tensors.items()}


def _finite(arrays: Sequence[Array]) -> NDArray[np.bool_]:
    """Which clients have finite numbers everywhere."""
    with np.errstate(invalid="ignore"):  # infinities of both signs: not finite either
        checks = [np.isfinite(a.reshape(len(a), -1).sum(axis=1, dtype=np.float64)) for a in arrays]
    return np.logical_and.reduce(checks)


def _where(chosen: NDArray[np.bool_], a: Array, b: Array) -> Array:
    return np.where(chosen.reshape(-1, *([1] * (a.ndim - 1))), a, b)
