"""The page about reports: its options are the command's."""

from __future__ import annotations

import re
from pathlib import Path

import typer.main

from fedrec.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")


def test_every_option_is_documented() -> None:
    command = typer.main.get_command(app).commands["report"]  # type: ignore[attr-defined]
    known = {name for p in command.params for name in p.opts if name.startswith("-")} - {"--help", "-h"}
    assert known - {"--force"} == set(re.findall(r"^\| `(-[-\w]+)`", PAGE, flags=re.M)) | {"--out"}
