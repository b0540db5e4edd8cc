"""Run: what ``fedrec.run`` and ``fedrec.open`` give: figures, history, ranks, recommendations."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Federated, View
from fedrec.core.method import Method
from fedrec.core.ragged import Ragged
from fedrec.core.scorer import Scorer
from fedrec.data.split import Split
from fedrec.evaluate.exam import Exam
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.ranking import rank_full, rank_sampled
from fedrec.methods.central.base import CentralAtOnce
from fedrec.runs.config import RunConfig
from fedrec.runs.folder import RunFolder
from fedrec.runs.history import History
from fedrec.runs.train import Training
from fedrec.serve.export import export
from fedrec.serve.join import join, newcomers
from fedrec.serve.recommend import at_least_one, find_item, item_rows, joined_centrally, recommend, similar
from fedrec.simulate.checkpoint import save_checkpoint
from fedrec.simulate.simulation import Simulation

if TYPE_CHECKING:
    import polars as pl


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
        return (
            f"Run({self.method.label} on {self.config.data}, {self.config.protocol.name}, "
            f"seed {self.config.seed}: "
            f"HR@10 {test['hr@10']:.4f}, NDCG@10 {test['ndcg@10']:.4f})"
        )

    @property
    def validation(self) -> dict[str, float]:
        return dict(self.result["validation"])

    @property
    def test(self) -> dict[str, Any]:
        """Fractions: ``hr@10``, ``ndcg@10``, …, and ``full`` for the ranking of the whole catalogue."""
        return dict(self.result["test"])

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
        """The selected model. A central yardstick is fitted again, to the same bits."""
        if self.training is None:
            assert isinstance(self.method, CentralAtOnce)
            if view is not None:
                raise FedrecError(f"{self.method.label} has no views: it is not federated")
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
        return summary(self._ranks(view, full))

    def _ranks(self, view: View | None, full: bool) -> Ranks:
        rank = rank_full if full else rank_sampled
        return rank(self.scorer(view), Exam(self.split), "test", self.threads, blocks_of(self.training))

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
        return recommend(self.scorer(view), split.data, split.trained, k, chosen, include_seen, self.threads)

    def join(self, likes: Sequence[Sequence[Any]]) -> Scorer:
        """New clients, each with the items it likes (ids or titles), as a scorer: user c is the c-th."""
        return self._joined(likes)[1]

    def _joined(self, likes: Sequence[Sequence[Any]]) -> tuple[Ragged, Scorer]:
        """New clients as a scorer, and what they have met."""
        codes = [[find_item(self.split.data, like) for like in mine] for mine in likes]
        negatives, n_items = self.split.protocol.negatives_per_positive, self.split.n_items
        if self.federated is None:
            seen = newcomers(codes, n_items, negatives).trained
            return seen, joined_centrally(self.method.label, self.scorer(), seen)
        assert self.federated.selected is not None
        popular = np.bincount(self.split.trained.items, minlength=n_items).astype(np.float32)
        state = self.federated.selected.moment.server
        found = join(self.federated.server, state, codes, popular, negatives)
        return found.likes, found

    def similar(self, item: Any, k: int = 10) -> pl.DataFrame:
        """The k items most like an item (id or title): the cosine of their rows in the shared table."""
        at_least_one(k)
        if self.federated is None:
            raise FedrecError(f"{self.method.label} has no shared item table: it is not federated")
        assert self.federated.selected is not None
        shared = self.federated.selected.moment.server.shared
        rows = item_rows(self.method.label, self.federated.server.slots, shared)
        return similar(self.split.data, rows, item, k)

    def export(self, path: str | Path) -> Path:
        """What a device needs to recommend without the server, as one file of plain arrays."""
        if self.federated is None or not isinstance(self.method, Federated):
            raise FedrecError(f"{self.method.label} cannot be exported for devices: it is not federated")
        assert self.federated.selected is not None
        state = self.federated.selected.moment.server
        settings = self.result["settings"]
        return export(self.federated.server, state, self.split, self.config.method, settings, path)

    def _user(self, user: Any) -> int:
        ids = self.split.data.user_ids[self.split.users]
        at = np.flatnonzero(ids.astype(str) == str(user))
        if len(at) == 0:
            hint = nearest(str(user), ids.astype(str)[:5000])
            hint = hint if hint.startswith("did") else f"users run from {ids[0]} to {ids[-1]}"
            raise FedrecError(f"user '{user}' took no part in this run: {hint}")
        return int(at[0])

    def save(self, path: str | Path) -> Path:
        """Write the run as a folder, to be opened again with ``fedrec.open``."""
        path = Path(path)
        if self.path is not None:
            if path.exists():
                raise FedrecError(f"{path} exists already: choose another folder")
            shutil.copytree(self.path, path, ignore=shutil.ignore_patterns(".lock"))
            return path
        folder = RunFolder.create(path, self.config)
        write_run(folder, self)
        history = History(folder.history)
        for line in self.lines:
            history.append(line)
        history.close()
        if self.training is not None:
            save_checkpoint(folder.checkpoint, self.training.moment, self.training.selected)
        folder.unlock()
        self.path = path
        return path


def blocks_of(training: Training | None) -> Any:
    """The users that a federation's devices are best scored together in."""
    if not isinstance(training, Simulation):
        return None
    return training.clients.engine.blocks(training.clients.everyone)


def write_run(folder: RunFolder, run: Run) -> None:
    """What a finished run leaves behind besides its history and checkpoint."""
    temporary = folder.path / "ranks.parquet.tmp"
    run.ranks.write_parquet(temporary)
    temporary.replace(folder.path / "ranks.parquet")
    folder.write_result(run.result)
