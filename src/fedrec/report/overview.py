"""What methods gain over the baseline on all data, as files: a figure for each protocol, and its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedrec.core.files import write
from fedrec.figures.overview import overview
from fedrec.report.drawn import Panel
from fedrec.report.files import write_panel
from fedrec.report.html import slug
from fedrec.study.overview import Overview


def write_overviews(overviews: Sequence[Overview], folder: Path) -> list[Path]:
    """``overview-PROTOCOL`` as CSV, SVG, PNG and PDF, where something is compared with a baseline."""
    files = []
    for one in overviews:
        if one.baseline is None:
            continue
        name, frame = f"overview-{slug(one.protocol)}", numbers(one)
        folder.mkdir(parents=True, exist_ok=True)
        files.append(folder / f"{name}.csv")
        write(files[-1], frame.write_csv())
        title = f"NDCG@10 on all data under {one.protocol}, less that of {one.baseline}."
        files += write_panel(Panel("ndcg", "", title, overview(frame, one.baseline, one.data)), folder, name)
    return files


def numbers(one: Overview) -> Any:
    """A row for each method and data set where it was compared with the baseline, in points."""
    import polars as pl

    rows = [
        {"method": line.name, "data": data, "gain": 100 * found.mean, "certain": found.certain}
        for line in one.lines
        for data, found in line.differences.items()
    ]
    return pl.DataFrame(rows)
