"""``fedrec.attack``: every attack that applies to a run or a method, beside chance and beside the accountant."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedrec.channel import stage
from fedrec.channel.budget import no_epsilon
from fedrec.channel.order import why_none
from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Federated
from fedrec.core.protocol import Protocol
from fedrec.data.split import split
from fedrec.methods import make
from fedrec.runs import border
from fedrec.runs.config import RunConfig
from fedrec.runs.data import data_of
from fedrec.runs.describe import described
from fedrec.runs.folder import RunFolder
from fedrec.runs.private import with_noise
from fedrec.study.attacks import ATTACKS
from fedrec.study.attacks.outcome import Outcome
from fedrec.study.attacks.scene import Scene

ROUNDS = 10  # of a method that is not private: enough for its uploads to be what they are later


@dataclass(frozen=True)
class Attacked:
    """What came of it."""

    label: str
    data: str
    users: int
    items: int
    rounds: int
    channel: tuple[str, ...]
    privacy: dict[str, Any]
    outcomes: list[Outcome]
    left_out: dict[str, str]  # by attack: why it does not apply

    @property
    def exceeded(self) -> list[Outcome]:
        """Attacks that found more than the accountant allows: then its guarantee is wrong."""
        return [one for one in self.outcomes if one.exceeds]

    @property
    def worst(self) -> Outcome | None:
        """The largest lower limit on ε."""
        found = [one for one in self.outcomes if one.epsilon is not None]
        return max(found, key=lambda one: one.epsilon or 0.0, default=None)

    def facts(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in ("data", "users", "items", "rounds", "left_out")}
        return {
            "method": self.label, **kept, "channel": list(self.channel), "privacy": self.privacy,
            "attacks": [one.facts() for one in self.outcomes], "exceeded": bool(self.exceeded),
        }  # fmt: skip


def attack(
    what: str | Path,
    data: Any = "demo",
    protocol: str | Protocol = "strict",
    rounds: int | None = None,
    seed: int = 0,
    *,
    settings: dict[str, Any] | None = None,
    clients: float | int | str | None = None,
    channel: Sequence[str] = (),
    epsilon: float | None = None,
    delta: float | None = None,
    attacks: Sequence[str] = (),
    targets: int = 100,
    shadows: int = 32,
    threads: int | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Attacked:
    """Attack a method, or what is in a run's folder: its last round, and the tables that come of it.

    ``targets`` people are attacked, ``shadows`` runs are played for likelihood ratios; ``attacks`` names those that are
    wanted (all). A run is trained anew from its description.
    """
    names = chosen(attacks)
    targets, shadows = border.whole("--targets", targets, 2), border.whole("--shadows", shadows, 4)
    threads = border.threads_or_all(threads)
    if (Path(what) / "config.toml").exists():
        config, method, parts = _of_run(Path(what), rounds)
    else:
        _federated(border.method_of(str(what), settings))
        if rounds is None and epsilon is None:
            rounds = ROUNDS
        made, found, config = described(
            str(what), data, protocol, rounds, seed, settings=settings, clients=clients, channel=channel,
            epsilon=epsilon, delta=delta,
        )  # fmt: skip
        method = _federated(made)
        parts = split(found, config.protocol, config.seed)
        config = with_noise(config, method, parts, ())
    scene = Scene(method, parts, config, threads, targets, shadows, tell)
    return _all(scene, names)


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in ATTACKS:
            raise FedrecError(f"unknown attack '{name}': {nearest(name, ATTACKS)}")
    return tuple(name for name in ATTACKS if not names or name in names)


def _federated(method: Any) -> Federated:
    if not isinstance(method, Federated):
        raise FedrecError(f"attack does not apply to {method.label}: it is not federated, nothing is sent")
    return method


def _of_run(path: Path, rounds: int | None) -> tuple[RunConfig, Federated, Any]:
    config = RunFolder.existing(path).config()
    method = _federated(make(config.method, config.settings))
    if config.local:
        raise FedrecError(f"{path} was made with --local: nothing leaves its devices")
    if config.start:
        raise FedrecError(
            f"{path} started from another run, which is not played again: attack one that did not"
        )
    if rounds is not None:
        if config.epsilon is not None:
            raise FedrecError(f"{path} spends its epsilon in {config.rounds} rounds: leave --rounds out")
        config = config.model_copy(update={"rounds": border.whole("--rounds", rounds, 1)})
    parts = split(data_of(config, None, str(path)), config.protocol, config.seed, not config.all_data)
    return config, method, parts


def _all(scene: Scene, names: Sequence[str]) -> Attacked:
    outcomes, left_out = [], {}
    budget = scene.now.budget
    trusted = budget is not None and not budget.noise.at_device
    for name in names:
        how = importlib.import_module(f"fedrec.study.attacks.{name}")
        scene.tell(f"{name}: preparing")
        if reason := how.why_not(scene):
            left_out[name] = reason
            continue
        for one in how.attack(scene):
            if trusted and one.sees.startswith("one upload"):
                one = replace(one, sees=f"{one.sees} (trusted server)")
            outcomes.append(one)
    stages = [stage.parse(text) for text in scene.config.channel]
    privacy = budget.record(scene.rounds) if budget else no_epsilon(why_none(stages))
    return Attacked(
        scene.method.label, scene.parts.data.name, scene.parts.n_users, scene.parts.n_items, scene.rounds,
        scene.config.channel, privacy, outcomes, left_out,
    )  # fmt: skip
