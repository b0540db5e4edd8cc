"""Results of short runs of everything, as they were written down: a change that moves one has to say so.

python tests/parity/everything.py      # writes them anew
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("everything", Path(__file__).with_name("everything.py"))
assert spec is not None
assert spec.loader is not None
everything = importlib.util.module_from_spec(spec)
spec.loader.exec_module(everything)

WRITTEN = json.loads(everything.RESULTS.read_text(encoding="utf-8"))
CASES = everything.cases()


def test_all_are_written_down() -> None:
    assert sorted(WRITTEN) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_run_ends_as_it_was_written_down(name: str) -> None:
    """To a thousandth: other processors round otherwise, and the rates of item rows are large."""
    method, options = CASES[name]
    found = everything.figures(method, **options)
    assert found["losses"] == pytest.approx(WRITTEN[name]["losses"], rel=1e-3, abs=1e-5)
    assert found["lengths"] == pytest.approx(WRITTEN[name]["lengths"], rel=1e-3, abs=1e-4)
