"""Which engine runs a method: ``auto`` takes the compiled one where the method declares a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedrec.clients.engine import Engine, Setting
from fedrec.clients.kernels import additive, leastsquares, loglinear
from fedrec.clients.plain import Plain
from fedrec.core.errors import FedrecError, nearest
from fedrec.core.kernel import Additive, LeastSquares, LogLinear

ENGINES = ("auto", "plain", "fused")

# The registry: for each kind of description, why it may not apply, and what runs it.
KERNELS: dict[type, tuple[Callable[[Any, Setting], str | None], Callable[[Any, Setting], Engine]]] = {
    LogLinear: (loglinear.why_not, loglinear.LogLinearClients),
    Additive: (additive.why_not, additive.AdditiveClients),
    LeastSquares: (leastsquares.why_not, leastsquares.LeastSquaresClients),
}


def choose_engine(name: str, setting: Setting) -> Engine:
    if name not in ENGINES:
        raise FedrecError(f"unknown engine '{name}': {nearest(name, ENGINES)}")
    declared = setting.method.kernel(setting.catalog)
    if declared is None:
        reason: str | None = f"{type(setting.method).__name__} declares no kernel"
    elif setting.local:
        reason = "without aggregation every client keeps its own table"
    else:
        reason = KERNELS[type(declared)][0](declared, setting)
    if name == "plain" or (name == "auto" and reason):
        return Plain(setting)
    if reason:
        label = setting.method.label
        raise FedrecError(f"engine 'fused' cannot run {label}: {reason}; it runs on engine 'plain'")
    return KERNELS[type(declared)][1](declared, setting)
