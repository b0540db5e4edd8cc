"""Which engine runs a method: ``auto`` takes the compiled one where the method declares a kernel."""

from __future__ import annotations

from importlib import import_module

from fedrec.clients.engine import Engine, Setting
from fedrec.clients.plain import Plain
from fedrec.core.errors import FedrecError, nearest
from fedrec.core.kernel import Additive, Attention, Encoded, Generated, LeastSquares, LogLinear, Mixed, Mlp

ENGINES = ("auto", "plain", "fused")

# The registry: for each kind of description, the file in ``kernels`` and the class that runs it. Imported when it
# is asked for, because compiled functions take time to load.
KERNELS: dict[type, str] = {
    LogLinear: "loglinear:LogLinearClients",
    Additive: "additive:AdditiveClients",
    LeastSquares: "leastsquares:LeastSquaresClients",
    Mlp: "mlp:MlpClients",
    Attention: "attention:AttentionClients",
    Generated: "generated:GeneratedClients",
    Encoded: "encoded:EncodedClients",
    Mixed: "mixed:MixedClients",
}


def choose_engine(name: str, setting: Setting) -> Engine:
    if name not in ENGINES:
        raise FedrecError(f"unknown engine '{name}': {nearest(name, ENGINES)}")
    if name == "plain":
        return Plain(setting)
    declared = setting.method.kernel(setting.catalog)
    if declared is None:
        reason: str | None = f"{type(setting.method).__name__} declares no kernel for these settings"
    elif setting.local:
        reason = "without aggregation every client keeps its own table"
    else:
        file, _, runs = KERNELS[type(declared)].partition(":")
        engine: Engine = getattr(import_module(f"fedrec.clients.kernels.{file}"), runs)(declared, setting)
        if isinstance(declared, LogLinear | Mlp) and declared.mild < 1:
            engine = import_module("fedrec.clients.kernels.mild").MildClients(engine, declared.mild)
        reason = engine.why_not(setting.plan(1))
        if reason is None:
            return engine
    if name == "auto":
        return Plain(setting)
    raise FedrecError(
        f"engine 'fused' cannot run {setting.method.label}: {reason}; it runs on engine 'plain'"
    )
