"""fedrec: personalized federated recommendation. Start at ``fedrec.run`` and ``fedrec.load``."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from fedrec import methods as methods
    from fedrec.core.errors import FedrecError as FedrecError
    from fedrec.core.protocol import Protocol as Protocol
    from fedrec.data.load import load as load
    from fedrec.data.split import split as split
    from fedrec.report.plots import Plots as Plots
    from fedrec.runs.api import open as open
    from fedrec.runs.api import resume as resume
    from fedrec.runs.api import run as run
    from fedrec.runs.run import Run as Run
    from fedrec.study.attacks.attack import attack as attack
    from fedrec.study.compare import Comparison as Comparison
    from fedrec.study.compare import compare as compare
    from fedrec.study.curve import curve as curve
    from fedrec.study.poison.poison import poison as poison
    from fedrec.study.tune import tune as tune

# Imported when first used: `fedrec --help` must not wait for NumPy, Numba or PyTorch.
_PLACES = {
    "load": "fedrec.data.load",
    "run": "fedrec.runs.api",
    "open": "fedrec.runs.api",
    "resume": "fedrec.runs.api",
    "split": "fedrec.data.split",
    "Protocol": "fedrec.core.protocol",
    "Run": "fedrec.runs.run",
    "attack": "fedrec.study.attacks.attack",
    "compare": "fedrec.study.compare",
    "Comparison": "fedrec.study.compare",
    "curve": "fedrec.study.curve",
    "poison": "fedrec.study.poison.poison",
    "tune": "fedrec.study.tune",
    "Plots": "fedrec.report.plots",
    "FedrecError": "fedrec.core.errors",
}


def _place_for_compiled_code() -> None:
    """Numba keeps compiled code beside the sources; where nobody may write there, in the user's cache or aside."""
    if "NUMBA_CACHE_DIR" in os.environ or os.access(os.path.dirname(__file__), os.W_OK):
        return
    import tempfile

    import platformdirs

    for place in (platformdirs.user_cache_dir("fedrec"), os.path.join(tempfile.gettempdir(), "fedrec")):
        try:
            os.makedirs(place, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            os.environ["NUMBA_CACHE_DIR"] = place
            return


_place_for_compiled_code()


def __getattr__(name: str) -> Any:
    if name == "methods":
        return importlib.import_module("fedrec.methods")
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'fedrec' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, "methods"])
