"""Small runs with every kind of recipe, as devices and pages get them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fedrec
from fedrec.data.interactions import Interactions

LIKES = [16, 4, 23, 8, 4]  # the newest last, one named twice
SMALL: dict[str, dict[str, Any]] = {
    "fedmf": {"dim": 4},
    "pfedrec": {"dim": 4, "batch_size": 8},
    "pfedrec-layers": {"dim": 4, "hidden": (5, 3)},
    "fedmf+dualper": {"dim": 4},
    "fedmf+gel": {"dim": 4, "radius_private": 0.3},
    "fedmf+plgc": {"dim": 4},
    "fedmf+gel+plgc": {"dim": 4},
    "fedrecon": {"dim": 4, "batch_size": 8},
    "fedrecon+dualper": {"dim": 4},
    "fedrecon+gel": {"dim": 4, "radius_private": 0.3},
    "fedrecon+plgc": {"dim": 4},
    "fedrap": {"dim": 4},
    "fedrap-l2": {"dim": 4, "regularizer": "l2", "weight_decay": 0.01, "batch_size": 8, "lam": 0.1},
    "fedrap-common": {"dim": 4, "parts": "common", "tolerance": 0.01},
    "fedrap+gel": {"dim": 4, "radius_private": 0.1},
    "fedrap+dualper": {"dim": 4},
    "fedncf": {"dim": 4, "hidden": (6, 3)},
    "fedncf+gel+plgc": {"dim": 4, "hidden": (6, 3)},
    "fedneumf": {"dim": 3, "dim_mlp": 4, "hidden": (6, 3)},
    "fedncf-adam": {"dim": 4, "hidden": (6, 3), "batch_size": 8},
    "fedrecgel": {"dim": 3, "dim_mlp": 4, "hidden": (6, 3), "radius_private": 0.2},
    "fcf": {"dim": 4},
    "fedals": {"dim": 4, "recency": 2.0},
    "fedals-alike": {"dim": 4, "recency": "off"},
    "fednext": {"dim": 4, "weight": 0.7},
    "fedmf+recent": {"dim": 4, "half_life": 1.0},
    "fedrecon+recent": {"dim": 4, "half_life": 1.0},
    "fedrap+recent": {"dim": 4, "half_life": 1.0},
    "fedncf-adam+recent": {"dim": 4, "hidden": (6, 3), "batch_size": 8, "half_life": 1.0},
    "popularity": {},
    "ease": {},
    "itemknn": {},
    "ials": {"dim": 4},
}


def exported(name: str, data: Interactions, path: Path, likes: list[int]) -> tuple[Path, Any]:
    spec = name if "-adam" in name else name.partition("-")[0]
    rounds = {} if name in ("popularity", "ease", "itemknn", "ials") else {"rounds": 2}
    run = fedrec.run(spec, data, settings=SMALL[name], **rounds)
    return run.export(path / "model.safetensors"), run.recommend(likes=likes, k=12)


# One of each kind of recipe; `make slow-test` has the others.
QUICK = (
    "fedmf",
    "pfedrec",
    "fedals",
    "fednext",
    "fedrap",
    "fedncf",
    "fedrecon",
    "ease",
    "popularity",
    "fedmf+plgc",
)
