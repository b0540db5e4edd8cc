"""Defences of the server: what each lets pass, and where there is nothing for them to look at."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedrec.channel.order import check_order
from fedrec.channel.robust import Gathered, defended, side_by_side
from fedrec.channel.stage import parse
from fedrec.clients.clients import Ask
from fedrec.core.errors import FedrecError
from fedrec.core.ragged import Ragged
from fedrec.core.slots import sent
from fedrec.core.upload import Total, Upload, Uploads, summed
from fedrec.data.split import Split
from fedrec.methods import make
from fedrec.simulate.simulation import Simulation

ITEMS = 20
UPLOADS = Uploads({"items": sent(ITEMS, 3, rows=True), "layer": sent(4)})


def crowd(clients: int = 30, seed: int = 0) -> Upload:
    """Honest devices: five rows each, all about as long."""
    rng = np.random.default_rng(seed)
    items = np.concatenate([rng.choice(ITEMS - 1, 5, replace=False) for _ in range(clients)]).astype(np.int32)
    rows = rng.normal(1.0, 0.1, (5 * clients, 3)).astype(np.float32)
    dense = rng.normal(0, 0.1, (clients, 4)).astype(np.float32)
    return Upload(
        Ragged(np.arange(clients + 1) * 5, items),
        {"items": rows},
        {"layer": dense},
        np.ones(clients, np.float32),
    )


def liars(clients: int = 2, size: float = 1000.0) -> Upload:
    """They send the last item's row and nothing else, very long."""
    items = Ragged(np.arange(clients + 1), np.full(clients, ITEMS - 1, np.int32))
    rows = np.full((clients, 3), size, np.float32)
    return Upload(
        items, {"items": rows}, {"layer": np.zeros((clients, 4), np.float32)}, np.ones(clients, np.float32)
    )


def through(*texts: str, parts: list[Upload]) -> Total:
    gathered = Gathered({})
    for part in parts:
        gathered.add(part)
    return defended([parse(t) for t in texts], gathered, UPLOADS, UPLOADS.arrays, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("text", "most"), [("normbound", 12.0), ("rowcap", 4.0), ("krum", 0.0), ("median", 0.0)]
)
def test_what_liars_can_add_is_bounded(text: str, most: float) -> None:
    undefended = through(parts=[crowd(), liars()])
    assert undefended.sums["items"][-1].max() == 2000
    total = through(text, parts=[crowd(), liars()])
    assert np.linalg.norm(total.sums["items"][-1]) <= most
    honest, all_of_it = total.sums["items"][:-1], summed(crowd(), UPLOADS.arrays).sums["items"][:-1]
    assert honest.sum() > 0.5 * all_of_it.sum(), "what honest devices ask for still counts"


def test_trimmed_leaves_out_the_groups_at_either_end() -> None:
    total = through("trimmed=0.3,groups=8", parts=[crowd(80), liars(2)])
    assert np.abs(total.sums["items"][-1]).max() == 0, "two of eight groups had a liar at most"
    assert total.clients == 82


def test_without_liars_sums_stay_near() -> None:
    whole, found = summed(crowd(), UPLOADS.arrays), through("rowcap=0.9", parts=[crowd()])
    assert np.linalg.norm(found.sums["items"] - whole.sums["items"]) < 0.05 * np.linalg.norm(
        whole.sums["items"]
    )
    assert (found.clients, found.weight) == (whole.clients, whole.weight)


def test_a_row_that_is_sent_twice_counts_once_and_weights_are_bounded() -> None:
    one = liars(1, 1.0)
    twice = replace(
        one,
        items=Ragged(np.array([0, 2]), np.full(2, ITEMS - 1, np.int32)),
        rows={"items": np.full((2, 3), 500.0, np.float32)},
        weights=np.full(1, 1e6, np.float32),
    )
    total = through("rowcap", parts=[crowd(), twice])
    assert np.linalg.norm(total.sums["items"][-1]) < 2
    assert total.weight == 31


def test_uploads_of_many_stand_side_by_side() -> None:
    both = side_by_side([crowd(3), liars(2)])
    assert both.clients == 5
    np.testing.assert_array_equal(both.one(4).rows["items"], liars(2).one(1).rows["items"])


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["median=5", "secure"], "needs totals of 5 groups, and 'secure' shows the server one sum"),
        (["rowcap", "fixed"], "needs single uploads, and 'fixed' shows the server one sum"),
        (["clip=1", "gaussian=1", "rowcap"], "can state no epsilon"),
        (["median", "trimmed"], "two stages compare groups"),
        (["verify", "secure"], "needs single uploads, and 'secure' shows the server one sum"),
        (["quantize=8", "verify"], "'quantize' changes that"),
    ],
)
def test_what_does_not_go_together_is_refused(texts: list[str], sentence: str) -> None:
    with pytest.raises(FedrecError, match=sentence):
        check_order([parse(text) for text in texts])


def test_a_run_plays_through_a_defence(small_split: Split) -> None:
    method = make("fedmf", {"dim": 4})
    plain, bounded, grouped = (
        Simulation(method, small_split, channel=[parse(text) for text in texts])  # type: ignore[arg-type]
        for texts in ((), ("rowcap=0.5",), ("median=3",))
    )
    for simulation in (plain, bounded, grouped):
        simulation.play(evaluate=False)
    tables = [simulation.server.state.shared["items"] for simulation in (plain, bounded, grouped)]
    assert all(np.isfinite(table).all() for table in tables)
    assert not np.array_equal(tables[0], tables[1])
    assert not np.array_equal(tables[0], tables[2])
    with pytest.raises(FedrecError, match="does not add them up"):
        Simulation(make("metamf"), small_split, channel=[parse("rowcap")])  # type: ignore[arg-type]


def test_verify_lets_honest_uploads_pass_to_the_bit(small_split: Split) -> None:
    method = make("fedals", {"dim": 4})
    plain, checked = (
        Simulation(method, small_split, channel=[parse(text) for text in texts])  # type: ignore[arg-type]
        for texts in ((), ("rowcap=0.999999", "verify"))
    )
    assert parse("verify").says().endswith("not under secure")
    for simulation in (plain, checked):
        for _ in range(3):
            simulation.play(evaluate=False)
    plain_items, items = (s.server.state.shared["items"] for s in (plain, checked))
    np.testing.assert_allclose(items, plain_items, rtol=1e-4, atol=1e-5)
    assert plain.server.state.server["mean_weight"] == checked.server.state.server["mean_weight"]
    with pytest.raises(FedrecError, match="'verify' does not apply to fedmf: its rows do not say"):
        Simulation(make("fedmf"), small_split, channel=[parse("verify")])  # type: ignore[arg-type]


@pytest.mark.parametrize("lie", ["longer", "nan", "heavier", "rows", "vector"])
def test_verify_leaves_out_what_no_honest_device_sends(lie: str, small_split: Split) -> None:
    simulation = Simulation(make("fedals", {"dim": 4}), small_split)
    server, clients = simulation.server, simulation.clients
    parts = [a.reply.sent for a in clients.fit(server.broadcast(1), clients.everyone, Ask(single=True))]
    honest = side_by_side([part for part in parts if isinstance(part, Upload)])
    first = honest.items.indptr[1]
    rows = {n: v.copy() for n, v in honest.rows.items()}
    dense, weights, items = {"outer": honest.dense["outer"].copy()}, honest.weights.copy(), honest.items
    if lie == "longer":
        rows["corrections"][0] *= 1.1
    elif lie == "nan":
        rows["corrections"][0] = np.nan
    elif lie == "heavier":
        weights[0] = 100
    elif lie == "rows":  # of other things than the vector was made from
        others = items.items.copy()
        others[:first] = (others[:first] + 1) % simulation.split.n_items
        items = Ragged(items.indptr, others)
    else:
        dense["outer"][0] *= 2
    told = server.uploads.at(1, honest.clients, server.state.shared)
    rng = np.random.default_rng(0)
    verify = parse("verify")
    assert verify.on_uploads(honest, told, rng).clients == honest.clients
    forged = replace(honest, items=items, rows=rows, dense={**honest.dense, **dense}, weights=weights)
    kept = verify.on_uploads(forged, told, rng)
    assert kept.clients == honest.clients - 1
    np.testing.assert_array_equal(kept.one(0).rows["corrections"], honest.one(1).rows["corrections"])
