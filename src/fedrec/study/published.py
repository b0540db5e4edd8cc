"""Figures from papers, to stand beside ours. Percent, as they were printed."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class Published(NamedTuple):
    """One method on one data set, as a paper has it."""

    hr: float
    ndcg: float
    hr_std: float | None
    ndcg_std: float | None
    source: str
    about: bool = False  # rounded, not confirmed


@cache
def tables() -> dict[str, Any]:
    """All of them, by table."""
    text = files("fedrec.study").joinpath("published.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def published(method: str, data: str, protocol: str) -> Published | None:
    """What was published for a method on a data set under (about) this protocol; None where nothing was."""
    for table in tables().values():
        found = table["rows"].get(method, {}).get(data) if table["protocol"] == protocol else None
        if found is not None and isinstance(found["hr@10"], float):
            stds = found.get("hr@10_std"), found.get("ndcg@10_std")
            return Published(
                found["hr@10"], found["ndcg@10"], *stds, table["source"], table.get("about", False)
            )
    return None


def with_noise(data: str, strength: float) -> Published | None:
    """PFedRec under Laplace noise of a strength (Table 4); None where nothing was published."""
    table = tables()["pfedrec-table-4"]
    found = table["rows"]["pfedrec"].get(data)
    if found is None or strength not in table["strength"]:
        return None
    at = table["strength"].index(strength)
    return Published(found["hr@10"][at], found["ndcg@10"][at], None, None, table["source"])
