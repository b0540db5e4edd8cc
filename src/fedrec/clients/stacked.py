"""Gradient methods on the plain engine: a block's clients in one autograd graph.

What a method says for one client (receive, loss, finish, send) runs under ``torch.func.vmap``. The loop of local
steps is written here for all clients at once: the sum of their losses has each one's own gradient, because they
share nothing. Where a loss reads tables at the batch's items alone and they move by SGD, a step fetches those rows
and adds their moves in place, so that its cost does not grow with the rows that a client holds.

``GradientMethod.fit`` says the same for one client, and runs for whatever makes steps in another way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numba as nb
import numpy as np

from fedrec.core.federated import Batch, Group, Params, Phase
from fedrec.core.gradient import GradientMethod, choose
from fedrec.core.method import Method
from fedrec.core.optim import SGD, Gradient
from fedrec.core.wrapper import Wrapper, chain


def stacks(method: Method) -> bool:
    """Whether a method's local training is what this file writes out."""
    return all(
        isinstance(part, GradientMethod)
        and part.by_turns
        and all(usual(part, verb) for verb in ("fit", "batches", "_descend"))
        for part in chain(method)
    )


def usual(part: Method, verb: str) -> bool:
    """Whether a verb of a gradient method is the one it has unless it says otherwise."""
    return getattr(type(part), verb) in (getattr(GradientMethod, verb), getattr(Wrapper, verb))


class Fetched:
    """The rows of a batch's items in the place of a table; whoever looks at it otherwise gets an error."""

    def __init__(self, rows: Any, items: Any) -> None:
        self._rows, self._items = rows, items

    def __getitem__(self, i: Any) -> Any:
        if i is not self._items:
            raise LookupError("other rows than those of the batch")
        return self._rows

    def detach(self) -> Fetched:
        return Fetched(self._rows.detach(), self._items)


class Stacked:
    """Local training of one method's clients, stacked."""

    def __init__(self, method: GradientMethod) -> None:
        self.method = method
        self.fetches = True  # until a loss is met that reads tables in other ways

    def fit(
        self, shared: Params, whole: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """As ``GradientMethod.fit``, for clients side by side; ``whole`` is the same for all of them."""
        from torch.func import vmap

        def receive(shared: Params, whole: Params, private: Params) -> Params:
            return self.method.receive({**shared, **whole}, private)

        def end(shared: Params, whole: Params, p: Params, passes: Sequence[Batch]) -> tuple[Params, Params]:
            p, given = self.method.finish(p, passes), {**shared, **whole}
            sent = self.method.send(given, p) if given else {}
            return self.method.keep(given, p), sent

        begun = vmap(receive, in_dims=(0, None, 0))(shared, whole, private)
        fetches = self.fetches  # another thread may find out meanwhile
        try:
            p, loss = self._descend(begun, passes, plan, fetches)
        except Exception:
            if not fetches:
                raise
            self.fetches = False
            p, loss = self._descend(begun, passes, plan, False)
        p, sent = vmap(end, in_dims=(0, None, 0, 0))(shared, whole, p, passes)
        return p, sent, loss

    def _descend(
        self, p: Params, passes: Sequence[Batch], plan: list[Phase], fetches: bool
    ) -> tuple[Params, Any]:
        """All phases, epochs and batches: the arrays afterwards, and the loss of the last epoch."""
        import torch
        from torch.func import vmap

        at, clients, tolerance = iter(passes), len(passes[0].items), self.method.tolerance
        last = shown = torch.zeros(clients)
        p = dict(p)
        for phase in plan:
            running = torch.ones(clients, dtype=torch.bool)
            p |= {name: torch.full((clients,), value) for name, value in phase.terms.items()}
            for group in phase.groups:
                if not isinstance(group.optimizer, SGD | Gradient):
                    p |= vmap(lambda q, g=group: g.optimizer.begin(q, g.names))(p)
            fetched = self._fetched(phase) if fetches else frozenset()
            for name in _moved(phase.groups) & fetched:  # moved in place: a copy of its own
                p[name] = p[name].clone(memory_format=torch.contiguous_format)
            for epoch in range(phase.epochs):
                samples = next(at)
                total, seen = torch.zeros(clients), torch.zeros(clients)
                for start in range(0, samples.items.shape[1], self.method.batch_size):
                    batch = Batch(*(x[:, start : start + self.method.batch_size] for x in samples))
                    count = batch.mask.sum(1)
                    padding = tolerance > 0 or start >= phase.least
                    active = running & (count > 0) if padding else None
                    for turn in self.method.turns(phase.groups):
                        value = self._turn(p, batch, turn, fetched, active)
                    total, seen = total + value * count, seen + count
                total = total / seen.clamp(min=1)
                shown = torch.where(running, total, shown)  # of the last epoch that the client took part in
                if tolerance > 0:
                    if epoch > 0:
                        running = running & ((last - total).abs() > tolerance * last.abs())
                    last = torch.where(running, total, last)
        return p, shown

    def _fetched(self, phase: Phase) -> frozenset[str]:
        """The tables of which a step sees the batch's rows alone: none, unless all that move do so by SGD."""
        tables = self.method.row_slots
        plain = all(isinstance(g.optimizer, SGD | Gradient) or not tables & {*g.names} for g in phase.groups)
        return tables if plain else frozenset()

    def _turn(
        self, p: Params, batch: Batch, groups: Sequence[Group], fetched: frozenset[str], active: Any
    ) -> Any:
        """A gradient step of some groups, written into ``p``; clients that are not active stay where they are."""
        import torch
        from torch.func import vmap

        tables = {n: p[n] for n in p if n in fetched}
        clients, size = batch.items.shape
        held = next(iter(tables.values())).shape[1] if tables else 0
        places = (batch.items + held * torch.arange(clients, dtype=torch.int32)[:, None]).reshape(-1)
        every = torch.arange(size) if tables else None
        seen = dict(p)
        for name, table in tables.items():
            rows = table.reshape(-1, *table.shape[2:]).index_select(0, places)
            seen[name] = rows.reshape(clients, size, *table.shape[2:])
        names = [name for group in groups for name in group.names]
        leaves = {name: seen[name].detach().requires_grad_() for name in names}

        seen |= leaves

        def one(*given: Any) -> Any:
            q, mine = dict(zip(seen, given, strict=False)), Batch(*given[len(seen) :])
            if every is None:
                return self.method.loss(q, mine)
            q |= {name: Fetched(q[name], every) for name in tables}
            return self.method.loss(q, mine._replace(items=every))

        with torch.enable_grad():
            values = vmap(one)(
                *seen.values(), *batch
            )  # side by side: vmap takes nested arguments apart slowly
            found = torch.autograd.grad(values.sum(), [*leaves.values()], materialize_grads=True)
        grads = dict(zip(leaves, found, strict=True))
        for group in groups:
            rows, others = (
                [n for n in group.names if n in tables],
                [n for n in group.names if n not in tables],
            )
            for name in rows:
                slope = grads[name] if active is None else _gated(grads[name], active)
                lr = group.optimizer.lr if isinstance(group.optimizer, SGD) else 1.0
                _add_rows(_flat(p[name], 2), places.numpy(), _flat(slope, 2), np.float32(-lr))
            if others:
                moved = self._move(group, {n: p[n] for n in p if n not in tables}, grads, others)
                p |= moved if active is None else choose(active, moved, p)
        return values.detach()

    def _move(self, group: Group, p: Params, grads: Params, names: Sequence[str]) -> Params:
        from torch.func import vmap

        if isinstance(group.optimizer, SGD | Gradient):  # element by element: as good for all at once
            moved = group.optimizer.move(p, grads, names)
        else:
            moved = vmap(lambda q, g: group.optimizer.move(q, g, names))(p, grads)
        return {n: v for n, v in moved.items() if n not in p or v is not p[n]}


def _moved(groups: Sequence[Group]) -> set[str]:
    return {name for group in groups for name in group.names}


def _gated(grads: Any, active: Any) -> Any:
    return grads * active.reshape(-1, *[1] * (grads.dim() - 1))


def _flat(x: Any, lead: int) -> Any:
    """As a matrix, its leading dimensions in one."""
    return x.contiguous().view(int(np.prod(x.shape[:lead])), -1).numpy()


@nb.njit(cache=True, nogil=True)
def _add_rows(table: Any, places: Any, values: Any, factor: Any) -> None:
    for k in range(len(places)):
        row = places[k]
        for j in range(values.shape[1]):
            table[row, j] += factor * values[k, j]
