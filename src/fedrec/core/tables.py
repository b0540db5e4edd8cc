"""A client's arrays as its score function reads them: ``p.items[i]``, ``p.score``."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any


class Rows:
    """A table that is indexed by items: ``p.items[i]``."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __getitem__(self, i: Any) -> Any:
        from torch.nn.functional import embedding  # its gradient is several times quicker than indexing's

        return embedding(i, self.rows) if self.rows.dim() > 1 else self.rows[i]


def tables(p: dict[str, Any], with_rows: Collection[str]) -> SimpleNamespace:
    """The arrays as attributes, those with a row per item indexed by item."""
    return SimpleNamespace(
        **{n: Rows(v) if n in with_rows and hasattr(v, "dim") else v for n, v in p.items()}
    )
