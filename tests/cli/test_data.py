"""fedrec data list, info, get, import."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fedrec.cli.data import app
from fedrec.cli.main import app as main
from fedrec.core.errors import DataError


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command line with FEDREC_DATA and the cache of its own."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDREC_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: tmp_path / "cache")
    return lambda *words: CliRunner().invoke(app, list(words))


def test_list(run, tmp_path):
    (tmp_path / "data" / "filmtrust").mkdir()
    (tmp_path / "data" / "filmtrust" / "ratings.txt").write_text("1 1 1\n")
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)["data"]}
    assert rows["demo"]["state"] == rows["filmtrust"]["state"] == "ready"
    assert rows["ml-1m"]["state"] == "download"
    assert rows["qb-article"]["state"] == "by hand"
    table = run("list").stdout
    assert all(name in table for name in rows)


def test_info_of_the_demo(run):
    facts = json.loads(run("info", "demo", "--json").stdout)
    assert facts["rows"] == 100_000
    assert facts["titles"]
    text = run("info", "demo").stdout
    assert "100,000" in text
    assert "made by fedrec" in text


def test_info_of_a_file_with_columns_given(run, tmp_path):
    (tmp_path / "a.csv").write_text("who,what,when\n1,2,noon\n1,3,night\n")
    facts = json.loads(run("info", "a.csv", "--user", "who", "--item", "what", "--json").stdout)
    assert (facts["rows"], facts["users"], facts["items"], facts["time"]) == (2, 1, 2, None)
    failed = run("info", "a.csv", "--user", "who", "--item", "what", "--time", "when")
    assert isinstance(failed.exception, DataError)
    assert "'noon' in the time column 'when'" in str(failed.exception)


def test_info_says_how_a_set_differs_from_the_published_one(run, tmp_path):
    (tmp_path / "data" / "filmtrust").mkdir()
    (tmp_path / "data" / "filmtrust" / "ratings.txt").write_text("1 1 1\n")
    facts = json.loads(run("info", "filmtrust", "--json").stdout)
    assert facts["notes"] == [
        "filmtrust has 1 rows, 1 users, 1 items, the published set 35,497 rows, 1,508 users, 2,071 items"
    ]
    assert facts["where"].endswith("filmtrust")
    assert "licence" in facts["terms"]


def test_info_of_an_unknown_name(run):
    failed = run("info", "ml-1000k")
    assert isinstance(failed.exception, DataError)
    assert "did you mean 'ml-100k'?" in str(failed.exception)


def test_get_what_is_there_already(run, tmp_path):
    (tmp_path / "data" / "filmtrust").mkdir()
    (tmp_path / "data" / "filmtrust" / "ratings.txt").write_text("1 1 1\n")
    facts = json.loads(run("get", "filmtrust", "--json").stdout)
    assert facts["downloaded"] is False
    assert "needs no file" in run("get", "demo").stdout


def test_get_what_cannot_be_downloaded(run):
    failed = run("get", "qb-article")
    assert isinstance(failed.exception, DataError)
    assert "its licence must be accepted with the owner" in str(failed.exception)
    failed = run("get", "nothing-like-it")
    assert "unknown data set" in str(failed.exception)


def test_import_then_info(run, tmp_path):
    (tmp_path / "log.csv").write_text("user,item,date\n1,2,2024-01-01\n1,3,2024-01-02\n")
    facts = json.loads(run("import", "log.csv", "--name", "mine", "--json").stdout)
    assert (facts["rows"], facts["users"], facts["items"]) == (2, 1, 2)
    facts = json.loads(run("info", "mine", "--json").stdout)
    assert facts["time"]["to"] == "2024-01-02"
    assert "mine" in run("list").stdout
    again = run("import", "log.csv", "--name", "mine")
    assert "replace it with --force" in str(again.exception)
    assert run("import", "log.csv", "--name", "mine", "--force", "--no-time").exit_code == 0
    assert json.loads(run("info", "mine", "--json").stdout)["time"] is None


def test_import_refuses_known_names_and_contradictions(run, tmp_path):
    (tmp_path / "log.csv").write_text("user,item,date\n1,2,2024-01-01\n")
    assert "choose another --name" in str(run("import", "log.csv", "--name", "demo").exception)
    both = run("import", "log.csv", "--name", "mine", "--time", "date", "--no-time")
    assert "contradict each other" in str(both.exception)
    assert "does not exist" in str(run("import", "gone.csv", "--name", "mine").exception)


RATED = "user,item,rating,date\n" + "".join(
    f"{u},{i},{1 + (u + i) % 5},{i}\n" for u in range(12) for i in range(9)
)
NAMES = "item,title,genre\n" + "".join(f"{i},Film {i},Drama\n" for i in range(9))


@pytest.fixture
def files(run, tmp_path):
    (tmp_path / "log.csv").write_text(RATED)
    (tmp_path / "films.csv").write_text(NAMES)
    return ("log.csv", "--items", "films.csv", "--min-rating", "2", "--core", "3")


def test_info_with_items_ratings_and_core(run, files):
    facts = json.loads(run("info", *files, "--json").stdout)
    assert (facts["name"], facts["titles"], facts["genres"]) == ("log:rating2:core3", True, True)
    assert facts["rows"] < 12 * 9
    assert "is rated 9 or more" in str(run("info", "log.csv", "--min-rating", "9").exception)
    assert "smaller core" in str(run("info", "log.csv", "--core", "50").exception)
    assert "'demo' has no ratings" in str(run("info", "demo", "--min-rating", "3").exception)


def test_imported_sets_are_listed_with_their_counts(run, files, tmp_path):
    made = json.loads(run("import", *files, "--name", "mine", "--json").stdout)
    (tmp_path / "cache" / "data" / "imported" / "broken.parquet").write_text("no table")
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)["data"]}
    counts = {what: made[what] for what in ("rows", "users", "items")}
    assert {what: rows["mine"][what] for what in counts} == counts
    assert rows["broken"]["rows"] is None
    assert json.loads(run("info", "mine", "--json").stdout)["genres"]
    facts = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    assert facts["imported"]["mine"] == counts
    assert f"{counts['rows']} rows" in CliRunner().invoke(main, ["doctor"]).stdout


def test_run_with_items_ratings_and_core_goes_on_with_the_same_data(run, files, tmp_path):
    short = ["--rounds", "1", "--set", "dim=2", "--json"]
    first = CliRunner().invoke(main, ["run", "fedmf", "--data", *files, *short, "--out", "kept"])
    assert first.exit_code == 0, first.exception
    result = json.loads(first.stdout)
    assert result["data"] == "log:rating2:core3"
    assert not (tmp_path / "kept" / "data.parquet").exists()
    again = ["run", "fedmf", "--resume", "kept", "--rounds", "2", "--json"]
    for option, other in (("--core", "4"), ("--min-rating", "3"), ("--items", "log.csv")):
        failed = CliRunner().invoke(main, [*again, option, other])
        assert f"was made with {option}" in str(failed.exception)
    same = CliRunner().invoke(main, [*again, "--data", *files])
    assert same.exit_code == 0, same.exception
    assert json.loads(same.stdout)["rounds"] == 2


def test_run_with_named_columns_and_protocols(run, tmp_path):
    text = "".join(f"{u},{i},{u + i}\n" for u in range(12) for i in range(9) if (u + i) % 4)
    (tmp_path / "odd.csv").write_text(f"who,what,moment\n{text}")
    columns = ["--user", "who", "--item", "what", "--time", "moment"]
    start = ["run", "fedals", "--data", "odd.csv", "--rounds", "1", "--set", "dim=2", "--json"]
    assert "looks like the user" in str(CliRunner().invoke(main, start).exception)
    for number, (asked, name) in enumerate(
        (
            (["--protocol", "next"], "next"),
            (["--protocol", "temporal"], "temporal"),
            (["--protocol-set", "known=validation"], "strict+known=validation"),
            (["--protocol", "strict+held_out=2"], "strict+held_out=2"),
            (
                ["--protocol-set", "split=temporal", "--protocol-set", "test_share=0.2"],
                "strict+split=temporal,test_share=0.2",
            ),
        )
    ):
        found = CliRunner().invoke(main, [*start, *columns, *asked, "--out", f"kept{number}"])
        assert found.exit_code == 0, found.exception
        assert json.loads(found.stdout)["protocol"] == name
    again = ["run", "fedals", "--resume", "kept0", "--rounds", "2", "--json"]
    failed = CliRunner().invoke(main, [*again, "--user", "what"])
    assert "was made with --user who" in str(failed.exception)
    assert CliRunner().invoke(main, [*again, *columns, "--protocol", "next"]).exit_code == 0
    listed = CliRunner().invoke(main, ["methods"]).stdout
    assert "protocol next): " in " ".join(listed.split())


def test_run_prints_what_is_said_about_the_data(run, tmp_path):
    (tmp_path / "data" / "filmtrust").mkdir()
    rows = "".join(f"{u} {i} 1\n" for u in range(12) for i in range(5))
    (tmp_path / "data" / "filmtrust" / "ratings.txt").write_text(rows)
    done = CliRunner().invoke(main, ["run", "popularity", "--data", "filmtrust"])
    assert "the published set 35,497 rows" in " ".join(done.stdout.split())
