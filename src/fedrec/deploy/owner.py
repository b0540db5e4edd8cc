"""What the owner of a device asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.core.errors import FedrecError
from fedrec.core.slots import Catalog
from fedrec.deploy.device import Device
from fedrec.deploy.private import stated
from fedrec.serve.recommend import at_least_one


def read_met(path: Path, ids: Sequence[str]) -> list[tuple[int, int | None]]:
    """Items of a file with their times, oldest first; one that the catalogue lacks is refused."""
    import polars as pl

    try:
        table = pl.read_csv(path, infer_schema=False)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise FedrecError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    columns = {name.lower(): name for name in table.columns}
    item = next((columns[n] for n in ("item", "id", "itemid", "item_id") if n in columns), table.columns[0])
    when = next((columns[n] for n in ("time", "timestamp", "date") if n in columns), None)
    codes = {name: code for code, name in enumerate(ids)}
    rows: list[tuple[int, int | None]] = []
    for place, name in enumerate(table[item].to_list()):
        if name not in codes:
            raise FedrecError(
                f"{path} has an item '{name}' that the catalogue does not have: is it the right file?"
            )
        try:
            rows.append((codes[name], None if when is None else int(float(table[when][place]))))
        except (TypeError, ValueError):
            raise FedrecError(f"{path} has a time that is no number: {table[when][place]!r}") from None  # type: ignore[index]
    return rows if when is None else sorted(rows, key=lambda row: row[1] or 0)


def described(device: Device) -> dict[str, Any]:
    """What is stored, and what would leave."""
    file, terms = device.file, device.terms
    rounds, count = file.rounds(), len(device.catalogue[0])
    catalog = Catalog(terms.threshold, count)
    names = ", ".join(sorted(terms.made.uploads(catalog).arrays))
    leaves = f"in a round: {names} of {terms.made.label}, as whole numbers"
    leaves += ", masked: the server sees sums of many devices" if terms.secure else ", in the clear"
    promised, sent = stated(terms, catalog), file.fact("answers", 0)
    private = sorted(n for n, s in terms.made.slots(catalog).items() if s.owner in ("private", "fresh"))
    return {
        "name": device.name,
        "method": f"{terms.method} {terms.settings or ''}".strip(),
        "stored": f"{len(file.met())} interactions, a catalogue of {count:,} items, {file.path.stat().st_size:,} bytes",
        "rounds": ", ".join(str(p.number) for p in rounds) or "none yet",
        "never leaves": f"interactions, the device's key, {', '.join(private) or 'what it ranks with'}",
        "leaves": leaves,
        "one upload alone tells": terms.made.reveals,
        **({} if promised is None else {"promised": promised, "answers": f"{sent} of {terms.answers}"}),
    }


def best(device: Device, k: int) -> list[dict[str, Any]]:
    """The k best items that were not met, best first."""
    at_least_one(k)
    data, scores = device.scores()
    scores = scores.astype(np.float64)
    scores[np.unique(data.items)] = -np.inf
    order = [i for i in np.argsort(-scores, kind="stable")[:k] if np.isfinite(scores[i])]
    return [{"item": str(data.item_ids[i]), "title": data.title(i), "score": float(scores[i])} for i in order]
