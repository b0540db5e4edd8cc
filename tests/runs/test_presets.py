"""Two presets per method: what goes with a protocol, what is refused, and what a result says."""

from __future__ import annotations

from pathlib import Path

import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.core.protocol import PAPER, STRICT
from fedrec.data.interactions import Interactions
from fedrec.methods import METHODS, WRAPPERS, make, settings_of
from fedrec.runs import presets
from fedrec.runs.command import command_of
from fedrec.runs.describe import described
from fedrec.runs.presets import preset


def entries() -> list[tuple[str, str]]:
    return [(name, entry) for name, table in presets._table().items() for entry in table]


@pytest.mark.parametrize(("name", "entry"), entries())
def test_what_stands_in_the_file_is_a_setting_and_says_where_it_comes_from(name: str, entry: str) -> None:
    spec = f"fedmf{entry}" if entry.startswith("+") else entry
    found = preset(spec, name)
    made = settings_of(make(spec, found.settings))
    assert found.source
    assert all(found.source)
    says = (
        any(made[key] != value for key, value in settings_of(make(spec)).items()) or found.rounds is not None
    )
    assert says != (
        presets._table()[name][entry]["settings"] == {}
    )  # without settings: a search that changed nothing


def test_a_search_that_changed_nothing_is_told_and_leaves_both_presets_alike() -> None:
    assert not presets.differ("fedmf")
    assert preset("fedmf", "paper").settings == preset("fedmf", "honest").settings == {}
    assert "60 trials" in preset("fedmf", "honest").source[0]


@pytest.mark.parametrize(
    "method", ["fedmf", "fedrecgel", "fedrecon+dualper", "fedmf+gel+recent", "popularity"]
)
def test_both_presets_speak_of_the_same_settings(method: str) -> None:
    paper, honest = (preset(method, name) for name in presets.NAMES)
    assert paper.settings.keys() == honest.settings.keys()


def test_a_wrapped_method_takes_its_bases_preset_unless_it_has_one() -> None:
    for name in METHODS:
        preset(name, "honest")
    lr = preset("fedncf", "honest").settings["fedncf.lr"]
    for wrapper in (w for w in WRAPPERS if w != "dualper"):
        assert preset(f"fedncf+{wrapper}", "honest").settings["fedncf.lr"] == lr
    one, other = (
        {name.partition(".")[2]: value for name, value in preset(method, "honest").settings.items()}
        for method in ("pfedrec", "fedmf+dualper")
    )
    assert one == other  # they are one method
    mild = preset("fedncf+dualper", "honest").settings["dualper.mild"]
    assert preset("fedncf+dualper+gel", "honest").settings["dualper.mild"] == mild < 1


def test_the_protocol_chooses_and_a_result_says_it(small: Interactions) -> None:
    honest, paper = preset("fedncf", "honest").settings["fedncf.lr"], 15.0
    assert honest != paper
    for protocol, name, lr in (
        ("strict", "honest", honest),
        ("next", "honest", honest),
        ("paper", "paper", paper),
    ):
        config = described("fedncf", small, protocol).config
        assert (config.preset, config.settings["fedncf.lr"]) == (name, lr)
    assert described("fedncf", small, STRICT.with_(candidates=9)).config.preset == "honest"
    assert described("fedncf", small, preset="paper").config.settings["fedncf.lr"] == paper
    assert described(make("fedncf"), small).config.preset is None
    run = fedrec.run("fedncf", small, rounds=1, settings={"dim": 4, "lr": 0.5})
    assert (run.result["preset"], run.result["preset_changed"]) == ("honest", ["fedncf.dim", "fedncf.lr"])
    assert run.config.settings["fedncf.eta"] == preset("fedncf", "honest").settings["fedncf.eta"]


def test_what_makes_no_sense_is_one_sentence(small: Interactions) -> None:
    refused = {
        "unknown preset 'hones'": {"preset": "hones"},
        "preset honest of fedncf has fedncf.lr=": {"preset": "honest", "settings": {"lr": 0.7}},
        "protocol 'mine' is one of your own": {"protocol": STRICT.with_(name="mine")},
        "--epsilon makes settings of its own": {"preset": "honest", "epsilon": 5.0},
    }
    for sentence, options in refused.items():
        with pytest.raises(FedrecError, match=sentence):
            described("fedncf", small, **options)  # type: ignore[arg-type]
    with pytest.raises(FedrecError, match="a preset is for a method by name"):
        described(make("fedncf"), small, preset="paper")
    mine = described("fedncf", small, STRICT.with_(name="mine"), preset="paper").config
    assert mine.preset == "paper"
    assert described("popularity", small, STRICT.with_(name="mine")).config.preset == "honest"
    # What a preset says nothing of, and what it says itself, may be given beside it.
    free = described("fedncf", small, preset="paper", settings={"epochs": 2, "lr": 15.0}).config
    assert (free.settings["fedncf.epochs"], free.settings["fedncf.lr"]) == (2, 15.0)


def test_a_run_is_made_again_with_its_preset(small: Interactions, tmp_path: Path) -> None:
    for options in ({"preset": "paper"}, {"settings": {"lr": 0.5}}, {"protocol": PAPER}):
        config = described("fedncf", small, rounds=2, **options).config  # type: ignore[arg-type]
        run = fedrec.run("fedncf", small, rounds=2, **options)  # type: ignore[arg-type]
        again = run.again()
        assert (again.config.preset, again.config.settings) == (config.preset, config.settings)
    assert "--preset paper" in command_of(described("fedncf", small, preset="paper").config)
    assert "--preset" not in command_of(described("fedncf", small, PAPER).config)
    changed = command_of(described("fedncf", small, settings={"lr": 0.5}).config)
    assert "--set fedncf.lr=0.5" in changed
    assert "--preset" not in changed
    assert "fedncf.eta" not in changed
