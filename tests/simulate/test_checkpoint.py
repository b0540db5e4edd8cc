"""Checkpoints: whole or not at all, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.data.split import split
from fedrec.methods.fedae import FedAE
from fedrec.methods.pfedrec import PFedRec
from fedrec.simulate.checkpoint import load_checkpoint, save_checkpoint
from fedrec.simulate.simulation import Simulation
from fedrec.testing import different

DAMAGED = "the checkpoint in .* is damaged: start the run anew with another --out"


@pytest.fixture
def simulation(tastes: Interactions) -> Simulation:
    simulation = Simulation(PFedRec(dim=4), split(tastes))
    for evaluate in (True, False):  # the selected round is not the last one
        simulation.play(evaluate)
    return simulation


@pytest.fixture
def folder(tmp_path: Path, simulation: Simulation) -> Path:
    save_checkpoint(tmp_path / "checkpoint", simulation.moment, simulation.selected)
    return tmp_path / "checkpoint"


def test_both_states_come_back(folder: Path, simulation: Simulation) -> None:
    last, selected = load_checkpoint(folder)
    assert different(last, simulation.moment) == []
    assert simulation.selected is not None
    assert selected is not None
    assert (last.round, selected.round) == (2, 1)
    assert selected.value == simulation.selected.value
    assert selected.validation == simulation.selected.validation
    assert selected.moment.before is not None
    assert simulation.selected.moment.before is not None
    assert different(selected.moment.before, simulation.selected.moment.before) == []
    assert different(selected.moment, simulation.selected.moment) == []


def test_a_newer_one_replaces_the_older(folder: Path, simulation: Simulation) -> None:
    simulation.play(evaluate=True)
    save_checkpoint(folder, simulation.moment, simulation.selected)
    assert load_checkpoint(folder)[0].round == 3
    assert len(list(folder.iterdir())) == 2


def test_a_flipped_bit_anywhere_is_noticed(folder: Path) -> None:
    for path in folder.iterdir():
        whole = path.read_bytes()
        for at in range(0, len(whole), max(1, len(whole) // 200)):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(FedrecError, match=DAMAGED):
                load_checkpoint(folder)
        path.write_bytes(whole)
    load_checkpoint(folder)


def test_a_file_cut_short_is_noticed(folder: Path) -> None:
    for path in folder.iterdir():
        whole = path.read_bytes()
        for length in (0, 1, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(FedrecError, match=DAMAGED):
                load_checkpoint(folder)
        path.write_bytes(whole)


def test_missing_arrays_are_noticed(folder: Path) -> None:
    next(folder.glob("round-*")).unlink()
    with pytest.raises(FedrecError, match=DAMAGED):
        load_checkpoint(folder)


def test_no_checkpoint_at_all(folder: Path) -> None:
    (folder / "current.json").unlink()
    with pytest.raises(FedrecError, match="has no checkpoint: start the run anew"):
        load_checkpoint(folder)


def test_a_checkpoint_of_other_devices_is_refused(folder: Path, tastes: Interactions) -> None:
    """A method may hold other arrays than the version that wrote it."""
    with pytest.raises(FedrecError, match="the checkpoint was written by another server than this"):
        Simulation(PFedRec(dim=5), split(tastes)).restore(*load_checkpoint(folder))


def test_a_checkpoint_without_anything_of_devices_is_refused_by_the_server(
    tastes: Interactions, tmp_path: Path
) -> None:
    parts = split(tastes)
    Simulation(FedAE(hidden=4), parts).save(tmp_path)
    other = Simulation(FedAE(hidden=5), parts)
    before = other.server.state
    with pytest.raises(FedrecError, match="the checkpoint was written by another server than this"):
        other.restore(*load_checkpoint(tmp_path))
    assert other.server.state is before
