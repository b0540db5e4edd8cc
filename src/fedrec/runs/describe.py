"""What is asked of a run, as one checked description: nothing is trained, nothing written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import fedrec
from fedrec.channel.budget import check_numbers
from fedrec.channel.order import states_epsilon
from fedrec.channel.stage import parse
from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated, View
from fedrec.core.method import ROUNDS, Method
from fedrec.core.protocol import Protocol
from fedrec.core.protocol import protocol as named_protocol
from fedrec.data.outline import Outline
from fedrec.data.sums import fingerprint
from fedrec.methods import named_by_alias, settings_of, spec_of, usual_clients
from fedrec.methods.central.base import Central, CentralInRounds
from fedrec.runs import border
from fedrec.runs.config import RunConfig
from fedrec.runs.data import loaded, origin_of
from fedrec.runs.presets import Preset, check_preset, chosen
from fedrec.runs.private import private_form


class Described(NamedTuple):
    """A method, its data, and everything that decides their run."""

    method: Method
    data: Any  # Interactions, or the outline of those that workers hold
    config: RunConfig


def described(
    method: str | Method,
    data: Any = "demo",
    protocol: str | Protocol = "strict",
    rounds: int | None = None,
    seed: int = 0,
    *,
    settings: dict[str, Any] | None = None,
    preset: str | None = None,
    engine: str = "auto",
    clients: float | int | str | None = None,
    channel: Sequence[str] = (),
    epsilon: float | None = None,
    delta: float | None = None,
    view: View | None = None,
    local: bool = False,
    eval_every: int = 1,
    patience: int | None = None,
    k: int | str | Sequence[int] = (10,),
    all_data: bool = False,
    start: str | None = None,
) -> Described:
    """What ``fedrec.run`` takes, checked; a mistake is one sentence."""
    name = method if isinstance(method, str) and named_by_alias(method) else None
    protocol = named_protocol(border.check_protocol(protocol))
    found = _preset(method, border.settings_of(settings), preset, protocol, epsilon)
    if found is not None:
        assert isinstance(method, str)
        settings = found.under(method, border.settings_of(settings))
        rounds = found.rounds if rounds is None else rounds
    method = border.method_of(method, settings)
    channel = border.texts(channel)
    if epsilon is not None:
        check_numbers(border.number("--epsilon", epsilon), None, 1)
        if local:
            raise FedrecError("--local uploads nothing, so --epsilon does not apply: leave one of them out")
        private_form(method, rounds, channel, 1)  # whether there is one, before data are loaded
    elif delta is not None:
        raise FedrecError("--delta goes with --epsilon: give both, or neither")
    data = loaded(data)
    names = data.data if isinstance(data, Outline) else data
    if epsilon is not None:
        method, rounds, channel = private_form(method, rounds, channel, names.n_users)
        name = None
    config = RunConfig(
        fedrec=fedrec.__version__,
        method=name or spec_of(method),
        settings=settings_of(method),
        preset=found and found.name,
        data=names.name,
        **origin_of(names),
        fingerprint=data.fingerprint if isinstance(data, Outline) else fingerprint(data),
        protocol=protocol,
        seed=seed,
        rounds=_rounds(method, rounds),
        engine=engine,
        clients=_clients(clients, name, local),
        channel=channel,
        epsilon=epsilon,
        delta=delta,
        view=view,
        local=local,
        eval_every=eval_every,
        patience=patience,
        all_data=all_data,
        k=k if isinstance(k, str) else border.several(k),
        start=start,
    )
    _refuse_what_does_not_apply(method, config)
    return Described(method, data, config)


def _preset(
    method: Any, settings: dict[str, Any], asked: Any, protocol: Protocol, epsilon: float | None
) -> Preset | None:
    """The preset of a run; none where a method is given as an object, or made private."""
    if asked is not None and epsilon is not None:
        raise FedrecError("--epsilon makes settings of its own: leave --preset out")
    if not isinstance(method, str):
        if asked is not None:
            raise FedrecError(f"a preset is for a method by name, such as 'fedmf': leave preset={asked} out")
        return None
    return None if epsilon is not None else chosen(method, check_preset(asked), protocol, settings)


def _clients(clients: float | int | str | None, name: str | None, local: bool) -> float | int | str | None:
    """How many take part in a round: as asked, else as the published setting has it, else everyone."""
    return usual_clients(name) if clients is None and name and not local else clients


def _rounds(method: Method, rounds: int | None) -> int | None:
    if isinstance(method, Federated | CentralInRounds):
        return ROUNDS if rounds is None else rounds
    if rounds is not None:
        hint = f": use the setting rounds={rounds}" if "rounds" in type(method).model_fields else ""
        raise FedrecError(f"{method.label} is not trained in rounds{hint or ', leave --rounds out'}")
    return None


def _refuse_what_does_not_apply(method: Method, config: RunConfig) -> None:
    if config.all_data and (config.patience or config.eval_every > 1):
        raise FedrecError("--all-data has nothing to validate on: leave --patience and --eval-every out")
    if config.all_data and config.protocol.known == "validation":
        raise FedrecError(
            f"--all-data holds nothing out, so there is no validation item that protocol '{config.protocol.name}' "
            "could make known: use --protocol strict"
        )
    if isinstance(method, Central):
        asked = {"--clients": config.clients, "--channel": config.channel, "--view": config.view}
        asked |= {"--local": config.local, "--engine": config.engine != "auto"}
        for option, value in asked.items():
            if value:
                raise FedrecError(f"{option} does not apply to {method.label}: it is not federated")
        in_rounds = {"--patience": config.patience, "--eval-every": config.eval_every > 1}
        for option, value in in_rounds.items() if not isinstance(method, CentralInRounds) else ():
            if value:
                raise FedrecError(f"{option} does not apply to {method.label}: it is not trained in rounds")
    elif config.patience and (config.epsilon or states_epsilon([parse(text) for text in config.channel])):
        raise FedrecError(
            "--patience stops by validation figures, which are one more release: under an epsilon the rounds are "
            "fixed, so leave it out"
        )
    elif config.local and config.channel:
        raise FedrecError("--local uploads nothing, so --channel does not apply: leave one of them out")
