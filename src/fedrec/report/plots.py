"""The figures of one run, in a notebook: ``run.plot.convergence()``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.figures import landscape as landscapes
from fedrec.figures.activity import activity
from fedrec.figures.convergence import convergence
from fedrec.figures.popularity import popularity
from fedrec.figures.ranks import ranks
from fedrec.figures.sparsity import sparsity
from fedrec.figures.spectrum import spectrum
from fedrec.figures.theme import Chart, Mode, altair, shown
from fedrec.figures.tsne import tsne
from fedrec.figures.views import views
from fedrec.report import models as m
from fedrec.report import numbers
from fedrec.report.entries import Entry
from fedrec.report.groups import Case, Group
from fedrec.report.people import People, people_of
from fedrec.runs.run import Run
from fedrec.study.collapse import collapse
from fedrec.study.landscape import landscape


class Plots:
    """Each method draws one figure; those of models compute what they show when they are asked."""

    def __init__(self, run: Run, mode: Mode = "light") -> None:
        altair()
        if run.config.all_data:
            raise FedrecError("this run was trained on all data: there is nothing measured to draw")
        self._run, self._mode = run, mode
        self._entry = _InMemory(run)
        case = Case(run.method.label, [self._entry])
        self._group = Group(run.config.data, run.config.protocol.name, [case])

    def __dir__(self) -> list[str]:
        return [name for name in vars(type(self)) if not name.startswith("_")]

    def convergence(self, y: str = "ndcg", x: str = "round") -> Chart:
        """y: fall (of the loss), hr or ndcg; x: round, seconds or megabytes."""
        if not self._run.lines:
            raise FedrecError(
                f"{self._run.method.label} was not trained in rounds: there is no convergence to draw"
            )
        return self._shown(convergence(numbers.convergence_numbers(self._group), y, x))

    def ranks(self, against: str = "sampled") -> Chart:
        """Where the test item came: among the candidates ("sampled") or all items ("full")."""
        return self._shown(ranks(numbers.rank_numbers(self._group), against))

    def activity(self) -> Chart:
        """HR@10 by the number of training items of users."""
        return self._shown(activity(numbers.binned_hits(self._group, self._people.active)))

    def popularity(self) -> Chart:
        """HR@10 by the popularity of the test item."""
        return self._shown(popularity(numbers.binned_hits(self._group, self._people.popular)))

    def sparsity(self) -> Chart:
        """Zeros in the common table by round, of a method that reports it (FedRAP)."""
        found = numbers.convergence_numbers(self._group) if self._run.lines else None
        if found is None or not found["sparsity"].drop_nulls().len():
            raise FedrecError(f"{self._run.method.label} reports no sparsity")
        return self._shown(sparsity(found.drop_nulls("sparsity")))

    def views(self, metric: str = "hr") -> Chart:
        """Own rows, the global table, another client's rows."""
        found = m.Models(views={self._label: m.ranks_by_view(self._run)})
        return self._shown(views(m.view_numbers(found), metric))

    def tsne(self, view: str = "own", client: int | None = None) -> Chart:
        """Item rows as a client sees them: under its "own" view or the "global" one."""
        found = m.Models(client=client)
        m.lay_out(found, self._label, self._run)
        known = [one.view for one in found.seen[self._label]]
        if view not in known:
            raise FedrecError(f"{self._label} has no view '{view}' of item rows: it has {', '.join(known)}")
        return self._shown(tsne(m.row_numbers(found), self._label, view))

    def landscape(self, kind: str = "contour", radius: float = 1.0) -> Chart:
        """The loss around the model, as a "contour" or a "surface"."""
        if kind not in ("contour", "surface"):
            raise FedrecError(f"kind='{kind}' cannot be drawn: ask for contour or surface")
        found = landscape(self._run, radius, clients=m.SAMPLED)
        return self._shown(getattr(landscapes, kind)(found.steps, found.loss))

    def spectrum(self) -> Chart:
        """Singular values of the item tables."""
        found = m.Models(spectra={self._label: collapse(self._run, m.SAMPLED)})
        return self._shown(spectrum(m.spectrum_numbers(found)))

    @property
    def _label(self) -> str:
        return self._run.method.label

    @property
    def _people(self) -> People:
        return people_of(self._group, self._run.split.data)

    def _shown(self, chart: Chart) -> Any:
        return shown(chart, self._mode)


class _InMemory(Entry):
    """A run that may never have been written."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.path or Path("a run in memory"), run.config, run.result)
        self.__dict__ |= {"ranks": run.ranks, "history": run.lines}
