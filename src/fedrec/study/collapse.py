"""Dimensional collapse: how many directions of space the item vectors of a trained model really use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedrec.clients.store import fetched
from fedrec.core.blocks import single_threaded_blas
from fedrec.core.errors import FedrecError
from fedrec.core.rng import generator
from fedrec.core.slots import Array
from fedrec.runs.run import Run
from fedrec.simulate.simulation import Simulation

CLIENTS = "collapse"


@dataclass(frozen=True)
class Spectrum:
    """The singular values of a table of item vectors, largest first, and what follows from them."""

    singular_values: Array

    @property
    def effective_rank(self) -> float:
        """exp of the entropy of the singular values (Roy & Vetterli, 2007): d where all directions count alike."""
        total = self.singular_values.sum()
        if total == 0:
            return 0.0
        shares = self.singular_values[self.singular_values > 0] / total
        return float(np.exp(-(shares * np.log(shares)).sum()))

    @property
    def top_share(self) -> float:
        """The share of the strongest direction in the squared length of the table; 1 is complete collapse."""
        squares = self.singular_values**2
        return float(squares[0] / squares.sum()) if len(squares) and squares[0] > 0 else 0.0


@dataclass(frozen=True)
class Collapse:
    """Spectra by slot: of the global tables, and of rows of their own that sampled clients rank with.

    A client's rows are compared with the global rows of the same items (``matched``): fewer rows
    alone make a smaller rank.
    """

    tables: dict[str, Spectrum]
    personal: dict[str, dict[int, Spectrum]]
    matched: dict[str, dict[int, Spectrum]]

    def summary(self) -> dict[str, dict[str, float]]:
        """Effective rank and top share by table; means over the sampled clients."""
        lines = {f"{name} global": _means([s]) for name, s in self.tables.items()}
        lines |= {f"{name} personal": _means(list(by.values())) for name, by in self.personal.items()}
        lines |= {f"{name} matched": _means(list(by.values())) for name, by in self.matched.items()}
        return lines


def spectrum(table: Array) -> Spectrum:
    """Of any table with a row per item."""
    rows = table.reshape(len(table), -1).astype(np.float64)
    if not np.isfinite(rows).all():
        raise FedrecError("a table with numbers that are not finite has no spectrum: did the run diverge?")
    with single_threaded_blas():  # its threads change the last bits
        return Spectrum(np.linalg.svd(rows, compute_uv=False))


def collapse(run: Run, clients: int = 50, seed: int = 0) -> Collapse:
    """Spectra of the round a federated run selected, with ``clients`` of them sampled for personal tables."""
    simulation = simulation_of(run, "collapse")
    assert simulation.selected is not None
    if clients < 1:
        raise FedrecError(f"clients={clients} samples nobody: ask for at least one")
    n_users = simulation.split.n_users
    users = np.sort(generator(seed, CLIENTS).choice(n_users, min(clients, n_users), replace=False))
    part = simulation.scorer(simulation.selected.moment, simulation.views[0]).ready(users).part
    slots = simulation.clients.slots
    after = simulation.selected.moment.server.shared
    tables = {n: spectrum(v) for n, v in after.items() if slots[n].rows}
    if not tables and not part.rows:
        raise FedrecError(f"collapse looks at item tables: {run.method.label} keeps none")
    personal: dict[str, dict[int, Spectrum]] = {n: {} for n in part.rows}
    matched: dict[str, dict[int, Spectrum]] = {n: {} for n in part.rows}
    for name, own in part.rows.items():
        rows = fetched(own)
        twin = name if name in after else _twin(name, after)
        for c, user in enumerate(users):
            run_of = slice(rows.items.indptr[c], rows.items.indptr[c + 1])
            if run_of.start == run_of.stop:
                continue  # took no part so far
            personal[name][int(user)] = spectrum(rows.values[run_of])
            if twin is not None:
                matched[name][int(user)] = spectrum(after[twin][rows.items.items[run_of]])
    return Collapse(tables, personal, {n: by for n, by in matched.items() if by})


def simulation_of(run: Run, what: str) -> Simulation:
    """The simulated federation of a run; a sentence where it is not federated."""
    if run.federated is None:
        raise FedrecError(f"{what} looks at shared tables: {run.method.label} is not federated and has none")
    return run.federated


def _twin(name: str, shared: dict[str, Array]) -> str | None:
    """The global table of private rows: the one they are named after, or the only one there is."""
    named = [n for n in shared if name == f"{n}_local"]
    tables = named or [n for n, v in shared.items() if v.ndim > 1]
    return tables[0] if len(tables) == 1 else None


def _means(spectra: list[Spectrum]) -> dict[str, float]:
    if not spectra:
        return {"effective_rank": float("nan"), "top_share": float("nan")}
    return {
        "effective_rank": float(np.mean([s.effective_rank for s in spectra])),
        "top_share": float(np.mean([s.top_share for s in spectra])),
    }
