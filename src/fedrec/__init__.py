"""fedrec: personalized federated recommendation. Start at ``fedrec.run`` and ``fedrec.load``."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from fedrec import methods as methods
    from fedrec.api import open as open
    from fedrec.api import resume as resume
    from fedrec.api import run as run
    from fedrec.core.errors import FedrecError as FedrecError
    from fedrec.data.load import load as load
    from fedrec.data.split import split as split
    from fedrec.engine.run import Run as Run
    from fedrec.evaluate.protocol import Protocol as Protocol

# Imported when first used: `fedrec --help` must not wait for NumPy, Numba or PyTorch.
_PLACES = {
    "load": "fedrec.data.load",
    "run": "fedrec.api",
    "open": "fedrec.api",
    "resume": "fedrec.api",
    "split": "fedrec.data.split",
    "Protocol": "fedrec.evaluate.protocol",
    "Run": "fedrec.engine.run",
    "FedrecError": "fedrec.core.errors",
}


def __getattr__(name: str) -> Any:
    if name == "methods":
        return importlib.import_module("fedrec.methods")
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'fedrec' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, "methods"])
