"""fedrec recommend, similar, export: on a run that is opened from its folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import fedrec
from fedrec.cli import recommend as commands
from fedrec.core.errors import FedrecError

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    fedrec.run("fedals", "demo", rounds=3, settings={"dim": 16}, out=path)
    return path


@pytest.fixture(scope="module")
def command() -> Command:
    app = typer.Typer()
    for name in ("recommend", "similar", "export"):
        app.command(name)(getattr(commands, name))
    return lambda *words: CliRunner().invoke(app, [str(w) for w in words])


def parsed(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.exception
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_recommend_for_a_user(folder: Path, command: Command) -> None:
    found = parsed(command("recommend", folder, "--user", 7, "-k", 5, "--json"))
    assert len(found["recommended"]) == 5
    liked = {line["item"] for line in found["liked"]}
    assert not liked & {line["item"] for line in found["recommended"]}
    scores = [line["score"] for line in found["recommended"]]
    assert scores == sorted(scores, reverse=True)
    text = command("recommend", folder, "--user", 7, "--k", 5).stdout
    assert found["recommended"][0]["title"][:20] in text
    assert found["liked"][0]["title"] in text


def test_a_new_person_is_offered_what_fits_its_likes(folder: Path, command: Command) -> None:
    likes = parsed(command("recommend", folder, "--user", 7, "--json"))["liked"][:5]
    words = [word for like in likes for word in ("--like", like["title"])]
    found = parsed(command("recommend", folder, *words, "--json"))
    assert {line["item"] for line in found["liked"]} == {like["item"] for like in likes}
    assert not {line["item"] for line in found["liked"]} & {line["item"] for line in found["recommended"]}
    seen = parsed(command("recommend", folder, *words, "--include-seen", "-k", 100, "--json"))
    assert {line["item"] for line in seen["recommended"]} & {like["item"] for like in likes}


def test_similar_items(folder: Path, command: Command) -> None:
    found = parsed(command("similar", folder, "--item", 3, "-k", 4, "--json"))
    assert len(found["similar"]) == 4
    assert found["like"]["item"] not in {line["item"] for line in found["similar"]}
    assert all(-1.001 <= line["score"] <= 1.001 for line in found["similar"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--user", "nobody"], "user 'nobody' took no part in this run"),
        (["--like", "no such thing at all"], "is called 'no such thing at all'"),
        ([], "give --user ID, or --like"),
        (["--user", "7", "--like", "3"], "give --user ID, or --like"),
        (["--user", "7", "--view", "owm"], "unknown view 'owm': did you mean 'own'"),
        (["--user", "7", "-k", "0"], "k=0 asks for no recommendation"),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, command: Command, words: list[str], sentence: str) -> None:
    result = command("recommend", folder, *words)
    assert isinstance(result.exception, FedrecError)
    assert sentence in str(result.exception)


def test_near_titles_are_offered(folder: Path, command: Command) -> None:
    title = fedrec.load("demo").title(0)
    result = command("similar", folder, "--item", title[:-3] + "xx")
    assert isinstance(result.exception, FedrecError)
    assert "nearest titles: " in str(result.exception)


def test_export_reads_with_numpy_alone(folder: Path, command: Command, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    assert parsed(command("export", folder, file, "--json"))["bytes"] == file.stat().st_size
    raw = file.read_bytes()  # what docs/export.md says
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    about = header.pop("__metadata__")
    arrays = {
        name: np.frombuffer(
            raw, {"F32": "<f4", "I32": "<i4", "I64": "<i8"}[x["dtype"]], int(np.prod(x["shape"])),
            8 + size + x["data_offsets"][0],
        ).reshape(x["shape"])
        for name, x in header.items()
    }  # fmt: skip
    run = fedrec.open(folder)
    shared = {"items", "gram", "recency", "withheld"}
    assert set(arrays) == {*shared, "popularity", "prior"}, "the shared part and nothing else"
    assert json.loads(about["items"]) == run.split.data.item_ids.tolist()
    private = json.loads(about["recipe"])["private"]
    likes = [3, 14, 15]
    own = arrays["items"][likes]
    lam = private["lam"] * len(likes) ** private["scale"]
    a = arrays["gram"] + private["alpha"] * own.T @ own + lam * np.eye(len(arrays["gram"]))
    half_life, floor = arrays[private["recency"]]
    aim = floor + (1 - floor) * 0.5 ** (np.arange(len(likes))[::-1] / half_life)
    w = np.linalg.solve(a, (1 + private["alpha"]) * aim @ own + lam * arrays["prior"])
    expected = run.join([[run.split.data.item_ids[i] for i in likes]]).all(np.array([0]))[0]
    np.testing.assert_allclose(arrays["items"] @ w, expected, rtol=1e-3, atol=1e-4)
    again = command("export", folder, file)
    assert "exists already" in str(again.exception)
