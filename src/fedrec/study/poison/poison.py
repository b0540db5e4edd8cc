"""``fedrec.poison``: how far devices that lie carry an item, what that costs the others, and what defences change."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec.channel.order import check_order
from fedrec.channel.stage import Stage, parse
from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Federated
from fedrec.core.files import write as write_text
from fedrec.core.protocol import Protocol
from fedrec.core.ragged import Ids
from fedrec.data.split import Split, split
from fedrec.runs import border
from fedrec.runs.describe import described
from fedrec.serve.recommend import find_item
from fedrec.study.formats import pipes
from fedrec.study.poison import WAYS
from fedrec.study.poison.campaign import Poisoned, rare

if TYPE_CHECKING:
    from rich.table import Table

ROUNDS = 20
SHARES = (0.01, 0.05, 0.1)
HEADINGS = ("attack", "liars", "defence", "ER@10", "valid HR@10", "test HR@10", "HR lost")


@dataclass(frozen=True)
class Line:
    """Means over seeds; fractions."""

    way: str
    share: float
    defence: str
    er: float  # people who get the target among their ten
    valid_hr: float
    test_hr: float
    lost: float  # test HR beside the same people's without liars and defence
    er_error: float | None = None  # standard errors over seeds
    lost_error: float | None = None

    def cells(self) -> list[str]:
        def percent(value: float, error: float | None = None) -> str:
            return f"{100 * value:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")

        share = f"{self.share:.0%}" if self.share else "-"
        figures = [percent(self.er, self.er_error), percent(self.valid_hr), percent(self.test_hr)]
        return [
            self.way or "-", share, self.defence or "-", *figures, percent(self.lost, self.lost_error)
        ]  # fmt: skip


def line_of(key: tuple[str, float, str], values: list[list[float]]) -> Line:
    """Of the figures of all seeds; the columns are ER, HR on validation and test, and HR lost."""
    means = Line(*key, *np.mean(values, axis=0).tolist())
    if len(values) == 1:
        return means
    er, *_, lost = (np.std(values, axis=0, ddof=1) / math.sqrt(len(values))).tolist()
    return replace(means, er_error=er, lost_error=lost)


@dataclass(frozen=True)
class Poisoning:
    """A table of lines."""

    method: str
    data: str
    users: int
    rounds: int
    seeds: int
    first: int  # of the seeds
    lines: list[Line]

    def about(self) -> str:
        seeds = f"{self.seeds} seeds from {self.first} on" if self.seeds > 1 else f"seed {self.first}"
        return (
            f"{self.method} on {self.data}: {self.users:,} users, {self.rounds} rounds, {seeds}, each with another "
            "rare item to promote. Percent ± standard error, of people who do not lie; HR lost is beside the same "
            "people without liars and without defence."
        )

    def facts(self) -> dict[str, Any]:
        return asdict(self)


def poison(
    method: str,
    data: Any = "demo",
    protocol: str | Protocol = "strict",
    rounds: int | None = None,
    seeds: int = 3,
    *,
    settings: dict[str, Any] | None = None,
    ways: Sequence[str] = (),
    shares: Sequence[float] = SHARES,
    defences: Sequence[str] = (),
    target: Any = None,
    first: int = 0,
    threads: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Poisoning:
    """Train with a share of devices that promote an item, in each way, without and with each defence.

    Seeds are ``first`` and those after it: a defence that was chosen on some is shown on others.
    A defence is a stage of the channel, such as ``rowcap=0.5``, or several joined by ``+``. The last round is measured.
    """
    for way in ways:
        if way not in WAYS:
            raise FedrecError(f"unknown way to poison '{way}': {nearest(way, WAYS)}")
    shares = [border.number("--share", share) for share in shares]
    for share in shares:
        if not 0 < share < 0.5:
            raise FedrecError(f"--share {share:g} is not between 0 and 0.5: give for example --share 0.05")
    chains = {text: stages_of(text) for text in ("", *defences)}
    seeds, first = border.whole("--seeds", seeds, 1), border.whole("--first-seed", first, 0)
    threads = border.threads_or_all(threads)
    rounds = border.whole("--rounds", ROUNDS if rounds is None else rounds, 1)
    found: dict[tuple[str, float, str], list[list[float]]] = {}
    parts = None
    if not isinstance(named := border.method_of(method, settings), Federated):
        raise FedrecError(f"poison does not apply to {named.label}: it is not federated, nothing is sent")
    for seed in range(first, first + seeds):
        made, loaded, config = described(method, data, protocol, rounds, seed, settings=settings)
        assert isinstance(made, Federated)
        parts = split(loaded, config.protocol, seed)
        if made.service(parts.catalog, seed) is not None:
            raise FedrecError(
                f"poison does not apply to {made.label}: its server makes something for each client"
            )
        data = loaded
        rng = np.random.default_rng([seed, 7])
        item = rare(parts.trained.items, parts.n_items, rng) if target is None else find_item(loaded, target)
        mixed = rng.permutation(parts.n_users)
        same = Same(made, parts, seed, rounds, threads, item)
        clean = same.played([], mixed[:0], "")
        everyone = np.ones(parts.n_users, np.bool_)
        for text, chain in chains.items():
            tell(f"seed {seed}, no liars, {text or 'no defence'}")
            sound = clean if not chain else same.played(chain, mixed[:0], "")
            _note(found, ("", 0.0, text), sound.figures(everyone), clean.figures(everyone))
        for share in shares:
            liars = np.sort(mixed[: max(math.ceil(share * parts.n_users), 1)])
            for way in ways or WAYS:
                for text, chain in chains.items():
                    tell(f"seed {seed}, {way}, {share:.0%}, {text or 'no defence'}")
                    run = same.played(chain, liars, way)
                    _note(found, (way, share, text), run.figures(run.honest), clean.figures(run.honest))
    assert parts is not None
    lines = [line_of(*entry) for entry in found.items()]
    return Poisoning(made.label, parts.data.name, parts.n_users, rounds, seeds, first, lines)


@dataclass(frozen=True)
class Same:
    """What is the same in all runs of a seed."""

    method: Federated
    parts: Split
    seed: int
    rounds: int
    threads: int
    item: int

    def played(self, channel: Sequence[Stage], liars: Ids, way: str) -> Poisoned:
        run = Poisoned(
            self.method, self.parts, self.seed, self.threads, channel=channel, rounds=self.rounds,
            liars=liars, way=way, target=self.item,
        )  # fmt: skip
        for number in range(1, self.rounds + 1):
            run.play(evaluate=number == self.rounds)
        return run


def stages_of(text: str) -> list[Stage]:
    """``rowcap=0.5+normbound`` is two stages; each must be the server's own."""
    chain = [parse(part.strip()) for part in text.split("+") if part.strip()]
    for stage in chain:
        if not stage.looks:
            raise FedrecError(
                f"'{stage.name}' is no defence: devices that lie skip it, so give one of the server's, such as rowcap"
            )
    check_order(chain)
    return chain


def _note(
    found: dict[Any, list[list[float]]], key: Any, run: dict[str, float], clean: dict[str, float]
) -> None:
    lost = clean["test hr"] - run["test hr"]
    found.setdefault(key, []).append([run["er"], run["valid hr"], run["test hr"], lost])


def markdown(found: Poisoning) -> str:
    cells = [HEADINGS, *(line.cells() for line in found.lines)]
    return "\n".join([f"# Poisoning of {found.method}", "", found.about(), "", *pipes(cells)]) + "\n"


def terminal(found: Poisoning) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if place in (0, 2) else "right")
    for line in found.lines:
        table.add_row(*line.cells())
    return table


def write(found: Poisoning, folder: Path) -> Path:
    """CSV, Markdown and JSON under one name; returns it without its ending."""
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / re.sub(r"[^A-Za-z0-9._+-]+", "-", f"{found.method}-{found.data}")[:120]
    frame = pl.DataFrame(
        [{"method": found.method, "data": found.data, **asdict(line)} for line in found.lines]
    )
    write_text(stem.with_name(stem.name + ".csv"), frame.write_csv())
    write_text(stem.with_name(stem.name + ".md"), markdown(found))
    write_text(stem.with_name(stem.name + ".json"), json.dumps(found.facts(), indent=1) + "\n")
    return stem
