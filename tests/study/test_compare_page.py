"""Comparisons with several baselines, and their tables as a section of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.study.compare import Comparison, open_comparison
from fedrec.study.paired import paired


def test_there_may_be_several_baselines_and_a_page(small: Interactions, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Mine\n\nIn my words.\n")

    def again() -> Comparison:
        return fedrec.compare(
            ["fedmf", "fcf", "popularity"], small, seeds=2, rounds=2, jobs=1, baseline=["fcf", "fedmf"],
            out=tmp_path / "out", page=page,
        )  # fmt: skip

    found = again()
    fedmf, fcf, popularity = found.lines
    row = next(row for row in found.sections[0].rows if row.name == "popularity")
    assert row.differences["fcf"].mean == pytest.approx(paired(popularity, fcf).difference)
    assert row.differences["fedmf"].mean == pytest.approx(paired(popularity, fedmf).difference)
    told = found.frame.filter(found.frame["method"] == "popularity").to_dicts()[0]
    assert told["difference"] == row.differences["fcf"].mean
    assert told["difference to fedmf"] == row.differences["fedmf"].mean
    text = page.read_text()
    assert text.startswith("# Mine\n\nIn my words.\n\n<!-- begin compare out -->\n")
    assert "| − fcf | − fedmf |" in text
    again()
    assert page.read_text() == text  # the section is replaced
    assert open_comparison(tmp_path / "out").baselines == ("fcf", "fedmf")


def test_a_page_in_no_folder_is_refused_before_anything_runs(small: Interactions, tmp_path: Path) -> None:
    with pytest.raises(FedrecError, match="there is no folder"):
        fedrec.compare(["fedmf"], small, out=tmp_path / "out", page=tmp_path / "none" / "page.md")
    assert not (tmp_path / "out").exists()
