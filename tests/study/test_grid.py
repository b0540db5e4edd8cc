"""Grids: names and TOML files become cases, and a typo is one sentence before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.study.grid import check, numbers, product, read_grid

GRID = """
methods = ["fedmf", "ease"]
data = ["demo"]
protocol = "both"
seeds = 2
rounds = 3
baseline = "ease"

[[lines]]
methods = ["pfedrec"]
label = "pfedrec, small"
settings = { dim = 4 }
protocol = "strict"
seeds = 1
"""


def written(folder: Path, text: str) -> Path:
    (folder / "grid.toml").write_text(text, encoding="utf-8")
    return folder / "grid.toml"


def test_a_grid_is_a_product(tmp_path: Path) -> None:
    grid, cases = read_grid(written(tmp_path, GRID))
    assert (grid.seeds, grid.baseline) == (2, "ease")
    assert [(c.name, c.protocol, c.options, c.seeds) for c in cases] == [
        ("fedmf", "strict", {"rounds": 3}, None), ("ease", "strict", {}, None),
        ("fedmf", "paper", {"rounds": 3}, None), ("ease", "paper", {}, None),
        ("pfedrec, small", "strict", {"rounds": 3}, (0,)),
    ]  # fmt: skip
    check(cases, numbers(2))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("baseline", "basline"), "the grid has no setting 'basline': did you mean 'baseline'"),
        (("label =", "lable ="), r"\[\[lines\]\] has no setting 'lable': did you mean 'label'"),
        (('"fedmf"', '"fedmv"'), "unknown method 'fedmv'"),
        (("dim = 4", "dimm = 4"), "has no setting 'dimm'"),
        (('"both"', '"strikt"'), "unknown protocol 'strikt': did you mean 'strict'"),
        (("rounds = 3", "rounds = -3"), "rounds=-3"),
        (('["demo"]', '["dmo"]'), "dmo"),
        (('["pfedrec"]', '["pfedrec", "fedmf"]'), "is one line's: give it one method"),
        (('methods = ["fedmf", "ease"]', "methods = ["), "is not valid TOML"),
        (('"ease"\n', '"eas"\n'), "the baseline 'eas' is not among the methods"),
    ],
)
def test_a_typo_is_one_sentence_before_anything_runs(
    tmp_path: Path, change: tuple[str, str], sentence: str
) -> None:
    path = written(tmp_path, GRID.replace(*change))
    with pytest.raises(FedrecError, match=sentence):
        fedrec.compare(grid=path, out=tmp_path / "out", jobs=1)
    assert not (tmp_path / "out").exists()


def test_settings_go_to_their_method_or_to_all_that_have_them() -> None:
    given = {"fedmf.dim": 4, "lr": 0.2, "gel.radius_shared": 0.1, "fedmf+gel.eta": 7}
    cases = product(["fedmf", "fedmf+gel", "ease"], ["demo"], "strict", given, {}, False)
    assert [case.settings for case in cases] == [
        {"dim": 4, "lr": 0.2}, {"lr": 0.2, "gel.radius_shared": 0.1, "eta": 7}, {},
    ]  # fmt: skip
    with pytest.raises(FedrecError, match="none of fedmf has a setting 'dimm': did you mean 'dim'"):
        product(["fedmf"], ["demo"], "strict", {"dimm": 4}, {}, False)
    with pytest.raises(FedrecError, match="say which methods to compare"):
        product([], ["demo"], "strict", {}, {}, False)


def test_options_go_to_those_that_know_them() -> None:
    options = {"rounds": 5, "clients": 0.5, "patience": 2}
    cases = product(["fedmf", "mf", "ease"], ["demo"], "strict", {}, options, True)
    assert [(case.name, case.options) for case in cases] == [
        ("fedmf", options),
        ("fedmf, local only", {"rounds": 5, "patience": 2, "local": True}),
        ("mf", {"rounds": 5, "patience": 2}),
        ("ease", {}),
    ]
