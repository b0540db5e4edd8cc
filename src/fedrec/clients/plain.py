"""The plain engine: a method's PyTorch code for one client, run for a block of clients at once.

``torch.func.vmap`` turns the single-client code into code over stacked clients. Each holds compact
tables of its touched rows only; clients of similar size stand together so that little is padding.
This engine is the meaning of every method; the kernels must agree with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import WILD, Fitted, RankingPart, Setting, Wish
from fedrec.clients.leaving import left
from fedrec.clients.stacked import Stacked, stacks
from fedrec.clients.state import DeviceState
from fedrec.clients.store import Rows, StoredRows, overlay
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Batch, Phase, row_names, weights_by
from fedrec.core.gradient import GradientMethod
from fedrec.core.messages import Broadcast
from fedrec.core.ragged import Ids, Ragged, run_ends
from fedrec.core.slots import Array, Arrays, Slot
from fedrec.core.tables import tables
from fedrec.core.upload import Upload, check_name, check_shape, summed
from fedrec.data.samples import Samples, draw_samples, draws_negatives

BLOCK_SAMPLES = 32_768  # padded samples per block: its rows stay in cache
BLOCK_CLIENTS = 128
TILE = 2048  # items scored at once when a client's own rows rank the whole catalogue


class Trained(NamedTuple):
    """A block before and after local training: a line per client, tables as touched rows."""

    before: Arrays
    after: Arrays
    sent: Arrays
    loss: Array


class Plain:
    """Runs clients of one method."""

    name = "plain"

    def __init__(self, setting: Setting) -> None:
        try:
            import torch  # noqa: F401
        except ImportError:
            raise FedrecError(
                f"{setting.method.label} runs on PyTorch, which is not installed: pip install 'fedrec[torch]'"
            ) from None
        self.setting, self.method, self.data = setting, setting.method, setting.data
        self.slots, self.uploads = setting.slots, setting.uploads
        service = setting.method.service(setting.catalog, setting.seed)
        self.given: dict[str, Slot] = service.given if service else {}
        self.with_rows = row_names({**self.slots, **self.given})
        method = setting.method
        self.stacked = Stacked(method) if isinstance(method, GradientMethod) and stacks(method) else None
        negatives = draws_negatives(setting.plan(1))
        self.sizes = self.data.samples(np.arange(len(self.data)), negatives)
        # Rows that a device keeps, before it first touches them: the same for all.
        kept = self._named("private", rows=True)
        self.untouched = {n: s.starting(n, setting.seed) for n, s in kept.items()}

    def _named(self, owner: str, rows: bool) -> dict[str, Slot]:
        return {n: s for n, s in self.slots.items() if s.owner == owner and s.rows == rows}

    def blocks(self, users: Ids) -> list[Ids]:
        """Clients of similar size together, each block padded to at most so many samples."""
        sizes = self.sizes
        order = users[np.argsort(sizes[users], kind="stable")]
        result, start = [], 0
        while start < len(order):
            end = start + 1
            while (
                end < len(order)
                and end - start < BLOCK_CLIENTS
                and (end + 1 - start) * sizes[order[end]] <= BLOCK_SAMPLES
            ):
                end += 1
            result.append(order[start:end])
            start = end
        return result

    # -- training ------------------------------------------------------------------------------

    def why_not(self, plan: list[Phase]) -> str | None:
        return None

    def fit(
        self, broadcast: Broadcast, state: DeviceState, users: Ids, plan: list[Phase], wish: Wish
    ) -> Fitted:
        start = time.perf_counter()
        samples = draw_samples(self.data, self.setting.secret, broadcast.round, users, plan)
        given = broadcast.given(users)
        before, after, sent, loss = self._train(broadcast, state, samples, plan, given)
        finite = _finite([loss, *sent.values(), *(after[n] for n in before if n in after)])
        if isinstance(self.method, GradientMethod):  # whose losses are means over samples; others are sums
            finite &= np.abs(loss) < WILD
        if not finite.all():
            after = {n: _where(finite, v, before[n]) for n, v in after.items() if n in before}
        items, real = samples.items(), np.flatnonzero(samples.real)
        upload = Upload(
            items,
            rows={n: _flat(v)[real] for n, v in sent.items() if self.uploads.arrays[n].rows},
            dense={n: v for n, v in sent.items() if not self.uploads.arrays[n].rows},
            weights=weights_by(self.uploads, samples.counts),
        ).only(finite)
        upload = upload.moved() if self.uploads.moved_rows else upload
        upload = left(self.setting, upload, broadcast.round, users[finite], samples.counts[finite])
        on_device = ("private", "fresh")
        lines = {n: after[n] for n, s in self.slots.items() if s.owner in on_device and not s.rows}
        wanted = self._tables() if wish.rows or wish.lines is not None else []
        tuned = {n: Rows(items, _flat(after[n])[real]) for n in wanted}
        tuned |= {n: self._of_met(rows, users) for n, rows in tuned.items() if self.slots[n].met}
        trained = time.perf_counter()
        part = RankingPart(users, lines, tuned, given)
        scores = None if wish.lines is None else self.score(broadcast.shared, part, wish.lines)
        return Fitted(
            users,
            lines,
            loss,
            finite,
            sent=upload if wish.single else summed(upload, self.uploads.arrays),
            rows_sent=len(upload.items.items),
            rows=tuned if wish.rows else None,
            scores=scores,
            seconds=(trained - start, time.perf_counter() - trained),
        )

    def _train(
        self,
        broadcast: Broadcast,
        state: DeviceState,
        samples: Samples,
        plan: list[Phase],
        given: Arrays,
    ) -> Trained:
        """Local training of a block, on the rows that it touches."""
        import torch

        users, touched = samples.users, samples.touched
        private = {n: state.lines[n][users] for n in self._named("private", rows=False)}
        for name in self._named("private", rows=True):
            private[name] = state.rows[name].over(self.untouched[name], users, touched)
        for name, slot in self._named("fresh", rows=False).items():
            started = slot.freshly(name, self.setting.seed, broadcast.round)
            private[name] = np.repeat(started[None], len(users), axis=0)
        shared = {n: overlay(broadcast.shared[n], None, touched) for n in self._named("shared", rows=True)}
        whole = {n: broadcast.shared[n].copy() for n in self._named("shared", rows=False)}  # the device's own
        plan = _with_least(plan, samples)

        def declared(p: Any, upload: Any, loss: Any) -> Any:
            self._check_names(p, upload)
            return {n: p[n] for n in self.slots if n in p}, upload if self.uploads.arrays else {}, loss

        def one(shared: Any, whole: Any, private: Any, passes: Any) -> Any:
            return declared(*self.method.fit({**shared, **whole}, private, passes, plan))

        def stacked(shared: Any, whole: Any, private: Any, passes: Any) -> Any:
            assert self.stacked is not None
            return declared(*self.stacked.fit(shared, whole, private, passes, plan))

        run = stacked if self.stacked else torch.func.vmap(one, in_dims=(0, None, 0, 0))
        passes = [Batch(*map(torch.from_numpy, map(np.ascontiguousarray, batch))) for batch in samples.passes]
        with torch.no_grad():
            mine = _tensors({**private, **self._given_rows(given, touched)})
            after, upload, loss = run(_tensors(shared), _tensors(whole), mine, passes)
        clients = len(users)
        everywhere = {n: np.broadcast_to(v, (clients, *v.shape)) for n, v in whole.items()}
        trained = Trained({**shared, **private, **everywhere}, _arrays(after), _arrays(upload), loss.numpy())
        self._check_shapes(trained, clients, touched.shape[1])
        return trained

    def _check_names(self, p: dict[str, Any], upload: dict[str, Any]) -> None:
        """A ``fit`` that forgets an array, or sends another than was declared, is refused."""
        label, declared = self.method.label, self.uploads.arrays
        for name, slot in self.slots.items():
            if slot.owner in ("private", "fresh") and name not in p:
                raise FedrecError(f"'{name}' is a {slot.owner} slot of {label} and 'fit' does not return it")
        for name in upload if declared else ():
            check_name(label, name, self.slots, declared)
        if missing := declared.keys() - upload.keys():
            raise FedrecError(f"'{min(missing)}' is declared in the uploads of {label} and was not sent")

    def _check_shapes(self, trained: Trained, clients: int, rows: int) -> None:
        """A ``fit`` that gives arrays of another shape than the slots have is refused."""
        label = self.method.label
        check_shape(label, "loss", trained.loss.shape, (clients,))
        for arrays, declared in ((trained.after, self.slots), (trained.sent, self.uploads.arrays)):
            for name, values in arrays.items():
                slot = declared[name]
                shape = (clients, rows, *slot.shape[1:]) if slot.rows else (clients, *slot.shape)
                check_shape(label, name, values.shape, shape)

    def _given_rows(self, given: Arrays, items: NDArray[np.int32]) -> Arrays:
        """What devices were given, of tables the rows of these items."""
        at = np.maximum(items, 0)
        clients = np.arange(len(items))[:, None]
        return {n: v[clients, at] if self.given[n].rows else v for n, v in given.items()}

    def _of_met(self, rows: Rows, users: Ids) -> Rows:
        """The rows of items that these clients met: the others are as they always were."""
        met = self.data.train.take(users)
        keys = [
            np.repeat(np.arange(len(users)), np.diff(each.indptr)) * self.data.n_items + each.items
            for each in (rows.items, met)
        ]
        there = np.isin(keys[0], keys[1])
        counts = np.add.reduceat(np.append(there, False), rows.items.indptr[:-1], dtype=np.int64)
        counts[np.diff(rows.items.indptr) == 0] = 0
        return Rows(Ragged(run_ends(counts), rows.items.items[there]), rows.values[there])

    # -- ranking -------------------------------------------------------------------------------

    def rebuilt(self, broadcast: Broadcast, state: DeviceState, users: Ids, own: bool) -> RankingPart:
        rows = {n: StoredRows(store, users) for n, store in state.rows.items()} if own else {}
        lines = {n: state.lines[n][users] for n in self._named("private", rows=False)}
        given = broadcast.given(users)
        fresh = self._named("fresh", rows=False)
        if fresh:  # made again on all of the device's samples, on the table as it is now
            plan = self.method.rebuild(self.setting.catalog, broadcast.round)
            samples = draw_samples(self.data, self.setting.secret, broadcast.round, users, plan)
            after = self._train(broadcast, state, samples, plan, given).after
            lines |= {n: after[n] for n in fresh}
        return RankingPart(users, lines, rows, given)

    def score(self, shared: Arrays, part: RankingPart, items: NDArray[np.int32]) -> Array:
        import torch

        rows = {n: overlay(self._table(shared, n), part.rows.get(n), items) for n in self._tables()}
        whole = {n: shared[n] for n in self._named("shared", rows=False)}
        given = self._given_rows(part.given, items)
        return self._scores({**rows, **part.lines, **given}, whole, torch.arange(items.shape[1]))

    def score_all(self, shared: Arrays, part: RankingPart) -> Array:
        import torch

        whole = {n: shared[n] for n in self._named("shared", rows=False)}
        names, n_items = self._tables(), self.data.n_items
        if not any(n in part.rows for n in names):  # the same rows for all: one matrix product
            common = {n: self._table(shared, n) for n in names}
            return self._scores({**part.lines, **part.given}, {**whole, **common}, torch.arange(n_items))
        out = np.empty((len(part.users), n_items), np.float32)
        for start in range(0, n_items, TILE):
            tile = np.arange(start, min(start + TILE, n_items), dtype=np.int32)
            out[:, tile] = self.score(
                shared, part, np.broadcast_to(tile, (len(part.users), len(tile))).copy()
            )
        return out

    def _tables(self) -> list[str]:
        return [n for n, s in self.slots.items() if s.rows and s.owner in ("shared", "private")]

    def _table(self, shared: Arrays, name: str) -> Array:
        return shared[name] if name in shared else self.untouched[name]

    def _scores(self, each: Arrays, common: Arrays, index: Any) -> Array:
        import torch

        def one(each: Any, common: Any) -> Any:
            return self.method.logits(tables({**each, **common}, self.with_rows), index)

        with torch.no_grad():
            scores: Array = torch.func.vmap(one, in_dims=(0, None))(_tensors(each), _tensors(common)).numpy()
        return scores


def _with_least(plan: list[Phase], samples: Samples) -> list[Phase]:
    at = iter(samples.passes)
    known = []
    for phase in plan:
        first, *_ = [next(at) for _ in range(phase.epochs)]
        known.append(replace(phase, least=int(first.mask.sum(axis=1).min())))
    return known


def _tensors(arrays: Arrays) -> dict[str, Any]:
    import torch

    return {n: torch.from_numpy(np.array(v, order="C", copy=None)) for n, v in arrays.items()}


def _arrays(tensors: dict[str, Any]) -> Arrays:
    return {n: v.numpy() for n, v in tensors.items()}


def _finite(arrays: Sequence[Array]) -> NDArray[np.bool_]:
    """Which clients have finite numbers everywhere."""
    with np.errstate(invalid="ignore", over="ignore"):  # infinities of both signs: not finite either
        found = np.logical_and.reduce([np.isfinite(_lines(a).sum(axis=1)) for a in arrays])
        for c in np.flatnonzero(~found):  # a sum may be too large where no number is
            found[c] = all(np.isfinite(_lines(a)[c].sum(dtype=np.float64)) for a in arrays)
    return np.asarray(found)


def _lines(a: Array) -> Array:
    """A line a client."""
    return a.reshape(len(a), -1)


def _flat(a: Array) -> Array:
    """Rows of all clients, one after the other."""
    return a.reshape(-1, *a.shape[2:])


def _where(chosen: NDArray[np.bool_], a: Array, b: Array) -> Array:
    return np.where(chosen.reshape(-1, *([1] * (a.ndim - 1))), a, b)
