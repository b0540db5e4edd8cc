"""A few small runs that a report can be made of."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedrec
from fedrec.data.interactions import Interactions

pytest.importorskip("altair", reason="reports are drawn with altair, the extra 'report'")
pytest.importorskip("vl_convert", reason="reports need vl-convert-python, the extra 'report'")

RUNS = {
    "fedmf-0": ("fedmf", 0), "fedmf-1": ("fedmf", 1), "pfedrec-0": ("pfedrec", 0), "pfedrec-1": ("pfedrec", 1),
    "popularity-0": ("popularity", 0),
}  # fmt: skip


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, small: Interactions) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, (method, seed) in RUNS.items():
        rounds, settings = (None, {}) if method == "popularity" else (4, {"dim": 8})
        fedrec.run(method, small, rounds=rounds, seed=seed, settings=settings, threads=1, out=folder / name)
    return folder


@pytest.fixture(scope="session")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with everything that these runs have figures for."""
    from fedrec.report.build import report

    return report(runs, tmp_path_factory.mktemp("page") / "report.html", baseline="fedmf", models=2).path
