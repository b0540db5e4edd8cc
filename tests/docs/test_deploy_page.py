"""The page on deployment: every command that it shows can be said as it is written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer.main

from fedrec.cli.main import app

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
COMMANDS = [line[2:] for line in PAGE.splitlines() if line.startswith("$ fedrec ")]


def test_the_page_shows_commands() -> None:
    assert len(COMMANDS) > 10


@pytest.mark.parametrize("text", COMMANDS)
def test_its_commands_are_understood(text: str) -> None:
    command, words = typer.main.get_command(app), shlex.split(text)[1:]
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    assert command.make_context("fedrec", words).params
