"""Which engine runs a method: ``auto`` takes the compiled one where a kernel exists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Federated
from fedrec.data.split import Split
from fedrec.engine.interface import Engine

ENGINES = ("auto", "plain", "fused")


def choose_engine(name: str, method: Federated, split: Split, seed: int, local: bool) -> Engine:
    from fedrec.engine import als, rap
    from fedrec.engine.expansion import PerGNN
    from fedrec.engine.fused import engine as fused
    from fedrec.engine.meta import Meta
    from fedrec.engine.plain import Plain
    from fedrec.methods.fcf import FCF
    from fedrec.methods.fedals import FedALS
    from fedrec.methods.fedpergnn import FedPerGNN
    from fedrec.methods.fedrap import FedRAP
    from fedrec.methods.metamf import MetaMF

    if name not in ENGINES:
        raise FedrecError(f"unknown engine '{name}': {nearest(name, ENGINES)}")
    if isinstance(method, FedPerGNN) and name != "fused":
        return PerGNN(method, split, seed, local)
    if isinstance(method, MetaMF) and local:
        raise FedrecError("metamf cannot learn locally: the server makes its clients' models")
    if isinstance(method, MetaMF) and name != "fused":
        return Meta(method, split, seed)
    compiled: tuple[Callable[[Federated, bool], str | None], Callable[[Any, Split, int], Engine]]
    if isinstance(method, FedALS | FCF):
        compiled = als.why_not, als.ALS
    elif isinstance(method, FedRAP):
        compiled = rap.why_not, rap.Rap
    else:
        compiled = fused.why_not, fused.Fused
    why_not, engine = compiled
    reason = why_not(method, local)
    if name == "plain" or (name == "auto" and reason):
        return Plain(method, split, seed, local)
    if reason:
        raise FedrecError(f"engine 'fused' cannot run {method.label}: {reason}; it runs on engine 'plain'")
    return engine(method, split, seed)
