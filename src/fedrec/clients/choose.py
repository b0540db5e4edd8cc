"""Which engine runs a method: ``auto`` takes the compiled one where the method declares a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedrec.clients.engine import Engine, Setting
from fedrec.clients.kernels import additive, attention, generated, leastsquares, loglinear, mlp
from fedrec.clients.plain import Plain
from fedrec.core.errors import FedrecError, nearest
from fedrec.core.kernel import Additive, Attention, Generated, LeastSquares, LogLinear, Mlp

ENGINES = ("auto", "plain", "fused")

# The registry: for each kind of description, what runs it.
KERNELS: dict[type, Callable[[Any, Setting], Engine]] = {
    LogLinear: loglinear.LogLinearClients,
    Additive: additive.AdditiveClients,
    LeastSquares: leastsquares.LeastSquaresClients,
    Mlp: mlp.MlpClients,
    Attention: attention.AttentionClients,
    Generated: generated.GeneratedClients,
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
        engine = KERNELS[type(declared)](declared, setting)
        reason = engine.why_not(setting.plan(1))
        if reason is None:
            return engine
    if name == "auto":
        return Plain(setting)
    raise FedrecError(
        f"engine 'fused' cannot run {setting.method.label}: {reason}; it runs on engine 'plain'"
    )
