"""Run: what ``fedrec.run`` and ``fedrec.open`` give: figures, history, ranks, recommendations."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.factors import Factors
from fedrec.core.federated import View
from fedrec.core.files import write_parquet
from fedrec.core.method import Method
from fedrec.core.ragged import Ragged
from fedrec.core.scorer import Scorer
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.ranking import rank_full, rank_sampled, top_k
from fedrec.figures.notebook import run_html
from fedrec.methods.central.base import Central, CentralAtOnce
from fedrec.methods.central.itemitem import ItemItem
from fedrec.methods.central.sasrec import Attentive
from fedrec.runs.border import check_view, path_of, several, whole
from fedrec.runs.config import RunConfig
from fedrec.runs.data import keep_data
from fedrec.runs.folder import RunFolder
from fedrec.runs.history import History
from fedrec.runs.rerun import same_again
from fedrec.runs.train import Training
from fedrec.serve.export import Export, exported, write_export
from fedrec.serve.join import join, newcomers
from fedrec.serve.models import load_model, save_model
from fedrec.serve.page import Page, page, write_page
from fedrec.serve.recipes import for_device, for_yardstick
from fedrec.serve.recommend import (
    at_least_one,
    check_new,
    find_item,
    frame,
    id_text,
    item_rows,
    joined_centrally,
    recommend,
    similar,
    similar_by,
    write_all,
)
from fedrec.simulate.simulation import Simulation

if TYPE_CHECKING:
    import polars as pl

    from fedrec import Plots

MODEL = "model.npz"  # of a yardstick


@dataclass
class Run:
    """A finished run. Test figures are those of the round selected on validation."""

    config: RunConfig
    method: Method
    split: Split
    result: dict[str, Any]
    ranks: pl.DataFrame
    lines: list[dict[str, Any]]
    threads: int = 1
    path: Path | None = None
    training: Training | None = None
    _central: Scorer | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        test = self.result["test"]
        said = f"HR@10 {test['hr@10']:.4f}, NDCG@10 {test['ndcg@10']:.4f}" if test else "on all data"
        about = (
            f"{self.method.label} on {self.config.data}, {self.config.protocol.name}, seed {self.config.seed}"
        )
        return f"Run({about}: {said})"

    def _repr_html_(self) -> str:
        """In a notebook."""
        return run_html(self.result)

    @property
    def plot(self) -> Plots:
        """Figures of this run: ``run.plot.convergence()``. They are drawn with altair, an extra."""
        import fedrec  # the surface knows the room, which lies below this one

        return fedrec.Plots(self)

    def _measured(self, what: str) -> dict[str, Any]:
        if self.config.all_data:
            raise FedrecError("this run was trained on all data: nothing was held out to measure it on")
        return dict(self.result[what])

    @property
    def validation(self) -> dict[str, float]:
        return self._measured("validation")

    @property
    def test(self) -> dict[str, Any]:
        """Fractions: ``hr@10``, ``ndcg@10``, …, and ``full`` for the ranking of the whole catalogue."""
        return self._measured("test")

    @property
    def history(self) -> pl.DataFrame:
        """One line per round: loss, clients, dropped, bytes, seconds, validation figures."""
        import polars as pl

        flat = [
            {k: v for k, v in line.items() if k != "validation"} | (line.get("validation") or {})
            for line in self.lines
        ]
        return pl.DataFrame(flat, infer_schema_length=None)

    def scorer(self, view: View | None = None) -> Scorer:
        """The selected model. A central yardstick comes from its file, or is fitted again to the same bits."""
        view = check_view(view)
        if self.training is None:
            assert isinstance(self.method, CentralAtOnce)
            if view is not None:
                raise FedrecError(f"{self.method.label} has no views: it is not federated")
            model = self.path / MODEL if self.path else None
            if self._central is None and model is not None and model.exists():
                self._central = load_model(model, self.split)
            if self._central is None:
                self._central = self.method.fit(self.split, self.config.seed, self.threads)
            return self._central
        assert self.training.selected is not None
        return self.training.scorer(self.training.selected.moment, view)

    @property
    def federated(self) -> Simulation | None:
        """Both halves of the run's federation; None for a yardstick."""
        return self.training if isinstance(self.training, Simulation) else None

    def evaluate(self, view: View | None = None, full: bool = False) -> dict[str, float]:
        """Test figures of the selected round under another view."""
        return summary(self.ranks_under(view, full))

    def ranks_under(self, view: View | None = None, full: bool = False) -> Ranks:
        """Where each user's test item comes in the selected round, under a view."""
        self._measured("test")
        if self.federated is not None:
            assert self.federated.selected is not None
            return self.federated.ranks(self.federated.selected.moment, "test", check_view(view), full)
        rank = rank_full if full else rank_sampled
        return rank(self.scorer(view), Exam(self.split), "test", self.threads)

    def recommend(
        self,
        user: Any = None,
        k: int = 10,
        view: View | None = None,
        include_seen: bool = False,
        *,
        likes: Sequence[Any] | None = None,
    ) -> Any:
        """The k best items, best first, that a user (original id) has not met in training.

        A list of users gives a list of tables. With ``likes`` (ids or titles) instead of a user: for a new
        person who likes these, on the device alone; without any, the most popular items.
        """
        if (user is None) == (likes is None):
            raise FedrecError("recommend for a user or for likes: give one of them")
        k, view = whole("k", k), check_view(view)
        if likes is not None:
            if view is not None:
                raise FedrecError("a new person has one view, the shared table: leave view out")
            at_least_one(k)
            seen, scorer = self._joined([likes])
            return recommend(scorer, self.split.data, seen, k, None, include_seen, self.threads)[0]
        if isinstance(user, list | tuple | np.ndarray):
            return self._recommend(list(user), k, view, include_seen)
        return self._recommend([user], k, view, include_seen)[0]

    def _recommend(
        self, users: list[Any], k: int, view: View | None, include_seen: bool
    ) -> list[pl.DataFrame]:
        at_least_one(k)
        chosen, split = [self._user(user) for user in users], self.split
        if self.federated is not None:
            items, scores = self.federated.top(np.array(chosen, np.int64), k, check_view(view), include_seen)
            return [frame(split.data, *line) for line in zip(items, scores, strict=True)]
        # What a user has met is not offered, held out or not: those items were kept back for measuring only.
        return recommend(self.scorer(view), split.data, split.met, k, chosen, include_seen, self.threads)

    @property
    def user_ids(self) -> Any:
        """Original ids of the users that took part, in the order of the run's numbers."""
        return self.split.data.user_ids[self.split.users]

    def recommend_all(
        self, path: str | Path, k: int = 10, view: View | None = None, include_seen: bool = False
    ) -> int:
        """The k best items of every user as rows of a new Parquet or CSV file; returns how many rows."""
        path, split, k = path_of("path", path), self.split, whole("k", k)
        at_least_one(k)
        check_new(path)
        if self.federated is not None:
            items, scores = self.federated.top(None, k, check_view(view), include_seen)
        else:
            items, scores = top_k(self.scorer(view), split.met, k, None, include_seen, self.threads)
        return write_all(split.data, self.user_ids, items, scores, path)

    def again(
        self,
        *,
        all_data: bool = False,
        out: Any = None,
        callbacks: Sequence[Any] = (),
        log: Sequence[str] = (),
    ) -> Run:
        """The same once more, for as many rounds as validation selected; ``all_data``: with nothing held out."""
        if not isinstance(self.split, Split):
            raise FedrecError("this run's data are with workers: open its folder without workers first")
        options: dict[str, Any] = {
            "all_data": all_data,
            "out": out,
            "callbacks": callbacks,
            "start": None,
            "log": log,
        }
        return same_again(
            self.config, self.split.data, self.result["selected_round"], threads=self.threads, **options
        )

    def join(self, likes: Sequence[Sequence[Any]]) -> Scorer:
        """New clients, each with the items it likes (ids or titles), as a scorer: user c is the c-th."""
        return self._joined(likes)[1]

    def _joined(self, likes: Sequence[Sequence[Any]]) -> tuple[Ragged, Scorer]:
        """New clients as a scorer, and what they have met."""
        codes = [[find_item(self.split.data, like) for like in several(mine)] for mine in several(likes)]
        negatives, n_items = self.split.protocol.negatives_per_positive, self.split.n_items
        popular = self.split.met_by.astype(np.float32)
        if self.federated is None:
            assert isinstance(self.method, Central)
            people = newcomers(codes, n_items, negatives)
            return people.trained, joined_centrally(self.method, self.scorer(), people.train, popular)
        assert self.federated.selected is not None
        state = self.federated.selected.moment.server
        found = join(self.federated.server, state, codes, popular, negatives)
        return found.likes, found

    def similar(self, item: Any, k: int = 10) -> pl.DataFrame:
        """The k items most like an item (id or title): the cosine of their rows, or what the model says of pairs."""
        k, label, data = whole("k", k), self.method.label, self.split.data
        if self.federated is None:
            scorer = self.scorer()
            if isinstance(scorer, ItemItem):
                return similar_by(data, scorer.like, item, k)
            if isinstance(scorer, Factors | Attentive):
                return similar(data, scorer.items, item, k)
            raise FedrecError(f"{label} knows no items by themselves: ask a run of another method")
        assert self.federated.selected is not None
        shared = self.federated.selected.moment.server.shared
        return similar(data, item_rows(label, self.federated.server.slots, shared), item, k)

    def export(self, path: str | Path) -> Path:
        """What a device needs to recommend without the server: plain arrays and a recipe, in one file."""
        path = path_of("path", path)
        return write_export(path, self._exported())

    def page(self, path: str | Path | None = None, *, half: bool = False, force: bool = False) -> Page:
        """The run as a page in which a visitor is recommended something on their own device; written to ``path``,
        a file, or a folder for a web server (a name that does not end in .html)."""
        place = None if path is None else path_of("path", path)
        site = place is None or place.suffix not in (".html", ".htm")
        made = page(self._exported(), self.split.data.name, self.method.label, half=half, worker=site)
        if place is not None:
            write_page(place, made, force)
        return made

    def _exported(self) -> Export:
        if self.federated is None:
            assert isinstance(self.method, Central)
            found, round = for_yardstick(self.method, self.scorer()), self.result["selected_round"]
        else:
            assert self.federated.selected is not None
            state = self.federated.selected.moment.server
            negatives = self.split.protocol.negatives_per_positive
            found, round = for_device(self.federated.server, state, negatives), state.round
        return exported(found, self.split, self.config.method, self.result["settings"], round)

    def _user(self, user: Any) -> int:
        ids = self.user_ids
        at = np.flatnonzero(ids.astype(str) == id_text(user, ids))
        if len(at) == 0:
            hint = nearest(str(user), ids.astype(str)[:5000])
            hint = hint if hint.startswith("did") else f"users run from {ids[0]} to {ids[-1]}"
            raise FedrecError(f"user '{user}' took no part in this run: {hint}")
        return int(at[0])

    def close(self) -> None:
        """Let workers go, where it has some: nothing more can be ranked then."""
        if self.federated is not None:
            self.federated.team.close()

    def save(self, path: str | Path) -> Path:
        """Write the run as a folder, to be opened again with ``fedrec.open``."""
        path = path_of("path", path)
        if self.path is not None:
            if path.exists():
                raise FedrecError(f"{path} exists already: choose another folder")
            shutil.copytree(self.path, path, ignore=shutil.ignore_patterns(".lock"))
            return path
        folder = RunFolder.create(path, self.config)
        if isinstance(self.split, Split):
            keep_data(folder.path, self.split.data)
        write_run(folder, self)
        history = History(folder.history)
        for line in self.lines:
            history.append(line)
        history.close()
        if self.training is not None:
            self.training.save(folder.checkpoint)
        folder.unlock()
        self.path = path
        return path


def write_run(folder: RunFolder, run: Run) -> None:
    """What a finished run leaves behind besides its history and checkpoint."""
    if run.training is None:
        save_model(folder.path / MODEL, run.scorer())
    write_parquet(folder.path / "ranks.parquet", run.ranks)
    folder.write_result(run.result)
