"""The page that says what is in a result, beside a result."""

from __future__ import annotations

import re
from pathlib import Path

import fedrec
from fedrec.data.interactions import Interactions

PAGE = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")


def documented(heading: str) -> set[str]:
    """Names in the first column of the table under a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_every_field_of_a_result_is_documented(tastes: Interactions, tmp_path: Path) -> None:
    run = fedrec.run("fedals", tastes, rounds=2, settings={"dim": 4}, out=tmp_path / "run")
    assert documented("result.json") == set(run.result)
    assert documented("history.jsonl") == set(run.lines[0])
    central = fedrec.run("popularity", tastes)
    assert set(central.result) == set(run.result)


def test_what_auto_stands_for_is_stated(tastes: Interactions) -> None:
    found = fedrec.run("fedals", tastes, rounds=1, settings={"dim": 4}).result
    assert found["settings"]["fedals.alpha"] == "auto"
    assert found["resolved"]["alpha"] > 0
    assert found["resolved"]["lam"] > 0
    assert fedrec.run("fedmf", tastes, rounds=1, settings={"dim": 4}).result["resolved"] == {}
