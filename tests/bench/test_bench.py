"""fedrec bench: what it measures, what it leaves out and why, and the table that it writes into a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedrec
from fedrec.bench import measure, memory
from fedrec.bench.loop import loop_clients_per_second
from fedrec.cli import bench as command
from fedrec.core.errors import FedrecError
from fedrec.core.gradient import GradientMethod
from fedrec.data.split import split
from fedrec.methods import METHODS, make

NAMES = {"fedmf": "fedrec.methods.fedmf:FedMF", "popularity": "fedrec.methods.central.popularity:Popularity"}


@pytest.fixture
def small(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    rows = [f"{u},{i},{t}" for u in range(12) for t, i in enumerate(rng.permutation(30)[:8])]
    (tmp_path / "small.csv").write_text("user,item,time\n" + "\n".join(rows) + "\n")
    return str(tmp_path / "small.csv")


@pytest.mark.slow
def test_all_methods_and_the_page(
    tmp_path: Path, small: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("fedrec.methods.METHODS", NAMES)
    monkeypatch.setattr(command, "WRAPPED", ["fedmf+gel"])
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- begin fedrec bench -->\nold\n<!-- end fedrec bench -->\nafter\n")
    command.bench(all=True, data=small, threads=1, loop_seconds=0.01, page=page, json=True)
    found = json.loads(capsys.readouterr().out)
    assert [row["method"] for row in found["results"]] == ["fedmf", "fedmf+gel"]
    assert list(found["skipped"]) == ["popularity"]
    fedmf, gel = found["results"]
    assert all(fedmf[engine]["clients_per_cpu_second"] > 0 for engine in ("loop", "plain", "fused"))
    assert fedmf["roofline"]["times_the_roofline"] > 0
    assert "loop" in gel["without"]
    text = page.read_text()
    assert text.startswith("before\n<!-- begin fedrec bench -->\n")
    assert text.endswith("<!-- end fedrec bench -->\nafter\n")
    assert "old" not in text
    assert "| `fedmf+gel` |" in text
    assert "not federated: nothing is trained on clients (popularity)" in text


def test_the_loop_runs_every_method_that_it_takes(small: str) -> None:
    pytest.importorskip("torch")
    parts = split(fedrec.load(small))
    methods = (make(name) for name in [*METHODS, *command.WRAPPED])
    taken = [one for one in methods if isinstance(one, GradientMethod) and measure._loops(one)]
    assert {"fedmf", "pfedrec", "fedncf"} <= {one.label for one in taken}
    assert all(loop_clients_per_second(one, parts, seconds=0.001) > 0 for one in taken)


def test_a_page_with_broken_marks_is_refused(tmp_path: Path, small: str) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- begin fedrec bench -->\n")
    with pytest.raises(FedrecError, match="has a broken place for the section"):
        command.bench(["fedmf"], data=small, page=page)
    assert page.read_text() == "<!-- begin fedrec bench -->\n"


def test_all_and_a_name(small: str) -> None:
    with pytest.raises(FedrecError, match="--all is every method"):
        command.bench(["fedmf"], all=True, data=small)


def test_memory_is_that_of_the_work() -> None:
    peak = memory.started()
    if peak() is None:
        pytest.skip("this system does not tell a process's peak")
    np.ones(8_000_000, np.float64).sum()
    assert 55 < (peak() or 0) < 120
