"""What ``fedrec deploy init`` writes: units that systemd accepts, a compose file, and commands that exist."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from fedrec.cli.main import app
from fedrec.deploy.plan import Plan, make_plan
from fedrec.deploy.terms import Terms

pytest.importorskip("cryptography")
ANALYZE = shutil.which("systemd-analyze")


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    (tmp_path / "items.csv").write_text("item,title\n1,a\n2,b\n3,c\n")
    folder = tmp_path / "a folder of 100% mine"  # a blank and a percent sign mean something to systemd
    return make_plan(
        folder, Terms(method="fedmf"), tmp_path / "items.csv",
        devices=10, positives=5.0, host="fed.example.org", port=9443, rounds=3,
    )  # fmt: skip


def understood(words: list[str]) -> None:
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    assert command.make_context("fedrec", words).params


def test_units_and_compose_say_commands_that_exist(plan: Plan) -> None:
    for name in ("fedrec-server.service", "fedrec-node.service"):
        (line,) = re.findall(r"^ExecStart=(.*)$", (plan.folder / name).read_text(), flags=re.M)
        python, *words = shlex.split(line.replace("%%", "%"))
        assert Path(python).exists()
        assert words[:2] == ["-m", "fedrec.cli.main"]
        understood(words[2:])
        assert "serve" not in words or Path(words[-1]) == plan.folder.resolve()
    yaml = pytest.importorskip("yaml")
    (server,) = yaml.safe_load((plan.folder / "compose.yaml").read_text())["services"].values()
    assert server["ports"] == ["9443:9443"]
    shell, option, script = shlex.split(server["command"])
    assert (shell, option) == ("sh", "-c")
    understood(shlex.split(script.partition("&& ")[2])[1:])
    said = re.findall(r"`fedrec ([^`]*)`", (plan.folder / "README.md").read_text().replace("\n", " "))
    assert len(said) >= 4
    for text in said:
        understood(shlex.split(text))


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze on this machine")
@pytest.mark.parametrize(
    ("name", "more"), [("fedrec-server.service", []), ("fedrec-node.service", ["--user"])]
)
def test_systemd_accepts_the_units(name: str, more: list[str], plan: Plan, tmp_path: Path) -> None:
    around = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        [str(ANALYZE), "verify", *more, str(plan.folder / name)], capture_output=True, text=True, env=around
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
