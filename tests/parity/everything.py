"""Every method, and every wrapper over every base that takes it, in sizes that train in a moment.

python tests/parity/everything.py      # writes results.json anew: say in the commit which results changed, and why
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.data.worlds import two_tastes
from fedrec.methods import METHODS, WRAPPERS, make
from fedrec.simulate.simulation import Simulation

RESULTS = Path(__file__).with_name("results.json")
ROUNDS = 3

# Small forms of the methods. A method that is not here runs with its defaults.
SMALL: dict[str, dict[str, Any]] = {
    "pfedrec": {"dim": 8},
    "fedmf": {"dim": 8},
    "fedncf": {"dim": 8, "hidden": (16,), "lr": 10, "eta": 2.5, "lr_layers": 0.3},
    "fedneumf": {"dim": 4, "dim_mlp": 8, "hidden": (8,), "lr": 3, "eta": 3, "lr_layers": 1},
    "fedncf-adam": {"dim": 4, "hidden": (8,), "lr_server": 0.02, "batch_size": 16},
    "fedneumf-adam": {"dim": 4, "dim_mlp": 8, "hidden": (8, 4), "lr_server": 0.02, "batch_size": 16},
    "fedrecon": {"dim": 8},
    "fedrap": {"dim": 8},
    "metamf": {"dim": 8, "rank": 4, "predictor": 4, "memory": 8, "hidden": 16, "lr": 0.01, "steps": 4},
    "fedpergnn": {"dim": 8, "neighbours": 5, "pseudo": 10, "noise": 0.02},
    "fcf": {"dim": 8},
    "fedae": {"hidden": 8},
    "feddae": {"hidden": 8},
    "gpfedrec": {"dim": 8, "hidden": (8,)},
    "fedals": {"dim": 8},
    "fednext": {"dim": 8},
}
# Forms of a method that run other code of it.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "pfedrec with layers": ("pfedrec", {"hidden": (6,)}),
    "fedrap common": ("fedrap", {"parts": "common"}),
    "fedrap personal": ("fedrap", {"parts": "personal"}),
    "fedrap threshold": ("fedrap", {"prox": 0.01}),
    "fedrap l2": ("fedrap", {"regularizer": "l2", "weight_decay": 0.001, "batch_size": 20}),
    "fedrap nuclear": ("fedrap", {"regularizer": "nuclear", "epochs": 2}),
    "fedmf in epochs": ("fedmf", {"epochs": 3, "tolerance": 0.001, "batch_size": 16}),
    "fedmf+plgc fixed": ("fedmf+plgc", {"balance": "fixed", "share": 0.9}),
    "fedmf+plgc alignment": ("fedmf+plgc", {"balance": "alignment"}),
}


def small(spec: str, settings: dict[str, Any] | None = None) -> Any:
    base = spec.partition("+")[0]
    named = {f"{base}.{name}": value for name, value in SMALL.get(base, {}).items()}
    return make(spec, {**named, **(settings or {})})


def everything() -> dict[str, Federated]:
    """By name: methods, their other forms, one wrapper over each, and chains of two over FedMF."""
    found: dict[str, Federated] = {}
    for name in METHODS:
        if isinstance(method := small(name), Federated):
            found[name] = method
    found |= {name: small(spec, settings) for name, (spec, settings) in FORMS.items()}
    specs = [f"{name}+{wrapper}" for name in list(found) if name in METHODS for wrapper in WRAPPERS]
    specs += [f"fedmf+{a}+{b}" for a in WRAPPERS for b in WRAPPERS if a != b]
    for spec in specs:
        try:
            found[spec] = small(spec)
        except FedrecError:
            continue  # this base does not take this wrapper
    return found


def figures(method: Federated, protocol: str = "strict", **options: Any) -> dict[str, Any]:
    """Losses of a short run, and the length of every array that both halves end with."""
    simulation = Simulation(method, split(two_tastes(users=30, items=24), protocol), **options)
    losses = [simulation.play(evaluate=False).loss for _ in range(ROUNDS)]
    held = {**simulation.server.state.held, **simulation.clients.state.lines}
    lengths = {
        name: float(np.linalg.norm(values.astype(np.float64))) for name, values in sorted(held.items())
    }
    return {"losses": losses, "lengths": lengths}


def cases() -> dict[str, tuple[Federated, dict[str, Any]]]:
    """Everything once; bases also under the other protocol, with sampled clients, noise and the plain engine."""
    found: dict[str, tuple[Federated, dict[str, Any]]] = {}
    for name, method in everything().items():
        found[name] = (method, {})
        if "+" not in name:
            found[f"{name}, paper"] = (method, {"protocol": "paper"})
            found[f"{name}, sampled"] = (method, {"clients_per_round": 0.4})
            if method.kernel(split(two_tastes()).catalog) is not None:
                found[f"{name}, plain"] = (method, {"engine": "plain"})
    return found


if __name__ == "__main__":
    written = {name: figures(method, **options) for name, (method, options) in cases().items()}
    RESULTS.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    print(f"{RESULTS}: {len(written)} results")
