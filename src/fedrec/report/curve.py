"""A curve of accuracy against ε as files: a figure for each data set and measure, and all numbers."""

from __future__ import annotations

from pathlib import Path

from fedrec.core.files import write
from fedrec.figures.curve import curve
from fedrec.report.drawn import Panel
from fedrec.report.files import write_panel
from fedrec.report.html import slug
from fedrec.study.curve import Curve


def write_curve(found: Curve, folder: Path) -> list[Path]:
    """``curve.csv``, and ``curve-DATA-hr`` and ``-ndcg`` as SVG, PNG and PDF."""
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    frame = found.frame
    files = [folder / "curve.csv"]
    write(files[0], frame.write_csv())
    for name in frame["data"].unique(maintain_order=True):
        some = frame.filter(pl.col("data") == name)
        for metric in ("hr", "ndcg"):
            title = f"{metric.upper()}@10 on {name} against ε."
            panel = Panel(metric, "", title, curve(some, metric))
            files += write_panel(panel, folder, f"curve-{slug(name)}-{metric}")
    return files
