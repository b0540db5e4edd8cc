"""Run: what ``fedrec.run`` and ``fedrec.open`` give: figures, history, ranks, recommendations."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import View
from fedrec.core.method import Central, Method
from fedrec.data.split import Split
from fedrec.engine.checkpoint import save_checkpoint
from fedrec.engine.config import RunConfig
from fedrec.engine.folder import RunFolder
from fedrec.engine.history import History
from fedrec.engine.recommend import find_item, joined, recommend, recommend_new, similar
from fedrec.engine.train import Training
from fedrec.evaluate.metrics import Ranks, summary
from fedrec.evaluate.ranking import rank_full, rank_sampled
from fedrec.evaluate.scorer import Scorer

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
    federation: Training | None = None
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
        if self.federation is None:
            assert isinstance(self.method, Central)
            if view is not None:
                raise FedrecError(f"{self.method.label} has no views: it is not federated")
            if self._central is None:
                self._central = self.method.fit(self.split, self.config.seed, self.threads)
            return self._central
        assert self.federation.selected is not None
        return self.federation.scorer(self.federation.selected.moment, view)

    def evaluate(self, view: View | None = None, full: bool = False) -> dict[str, float]:
        """Test figures of the selected round under another view."""
        return summary(self._ranks(view, full))

    def _ranks(self, view: View | None, full: bool) -> Ranks:
        rank = rank_full if full else rank_sampled
        blocks = None
        if self.federation is not None:
            blocks = self.federation.engine.blocks(self.federation.everyone)
        return rank(self.scorer(view), self.split, "test", self.threads, blocks)

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
            return recommend_new(self, [likes], k, include_seen)[0]
        if isinstance(user, list | tuple | np.ndarray):
            return recommend(self, list(user), k, view, include_seen)
        return recommend(self, [user], k, view, include_seen)[0]

    def join(self, likes: Sequence[Sequence[Any]]) -> Scorer:
        """New clients, each with the items it likes (ids or titles), as a scorer: user c is the c-th."""
        return joined(self, [[find_item(self.split.data, like) for like in mine] for mine in likes])[1]

    def similar(self, item: Any, k: int = 10) -> pl.DataFrame:
        """The k items most like an item (id or title): the cosine of their rows in the shared table."""
        return similar(self, item, k)

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
        if self.federation is not None:
            save_checkpoint(folder.checkpoint, self.federation.state, self.federation.selected)
        folder.unlock()
        self.path = path
        return path


def write_run(folder: RunFolder, run: Run) -> None:
    """What a finished run leaves behind besides its history and checkpoint."""
    temporary = folder.path / "ranks.parquet.tmp"
    run.ranks.write_parquet(temporary)
    temporary.replace(folder.path / "ranks.parquet")
    folder.write_result(run.result)
