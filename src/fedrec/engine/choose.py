"""Which engine runs a method: ``auto`` takes the compiled one where a kernel exists."""

from __future__ import annotations

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Federated
from fedrec.data.split import Split
from fedrec.engine.interface import Engine

ENGINES = ("auto", "plain", "fused")


def choose_engine(name: str, method: Federated, split: Split, seed: int, local: bool) -> Engine:
    from fedrec.engine import rap
    from fedrec.engine.als import ALS
    from fedrec.engine.expansion import PerGNN
    from fedrec.engine.fused.engine import Fused, why_not
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
    if name != "plain" and not local and isinstance(method, FedALS | FCF):
        return ALS(method, split, seed)
    if name != "plain" and isinstance(method, FedRAP) and not rap.why_not(method, local):
        return rap.Rap(method, split, seed)
    reason = rap.why_not(method, local) if isinstance(method, FedRAP) else why_not(method, local)
    if name == "plain" or (name == "auto" and reason):
        return Plain(method, split, seed, local)
    if reason:
        raise FedrecError(f"engine 'fused' cannot run {method.label}: {reason}; it runs on engine 'plain'")
    return Fused(method, split, seed)
