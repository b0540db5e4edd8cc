"""Reproduction of published figures on the real data. Slow: run with `make published`.

A published mean must be met by our mean within the given points of HR@10; one seed moves ML-100K by
about 1.5 points. What cannot be reached is written down in docs/methods/README.md, not here.
"""

from __future__ import annotations

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions

pytestmark = pytest.mark.published

# Zhang et al., IJCAI 2023, Tables 2 and 3: HR@10, and how near our mean of seeds has to come.
FUSED = [
    ("pfedrec", "ml-100k", 71.62, 2.0),
    ("fedmf", "ml-100k", 65.15, 2.0),
    ("fedrecon", "ml-100k", 64.45, 2.5),
    ("pfedrec", "ml-1m", 73.26, 2.0),
    ("fedmf", "ml-1m", 67.72, 2.0),
    ("pfedrec", "lastfm-2k", 82.38, 2.0),
    ("fedmf", "lastfm-2k", 81.64, 2.0),
    ("pfedrec", "amazon-video", 60.08, 2.0),
    ("fedmf", "amazon-video", 59.67, 2.0),
]
PLAIN = [("fedncf", "ml-100k", 60.62, 2.5), ("fedncf+dualper", "ml-100k", 68.82, 3.0)]
NOISE = {0.1: 71.45, 0.2: 71.26, 0.3: 71.13, 0.4: 70.84, 0.5: 70.88}  # Table 4, ML-100K


def load(name: str) -> Interactions:
    try:
        return fedrec.load(name)
    except FedrecError as reason:
        pytest.skip(str(reason))


def hit_rate(method: str, data: str, seeds: int, **options: object) -> float:
    loaded = load(data)
    runs = [fedrec.run(method, loaded, "paper", 100, seed, **options) for seed in range(seeds)]  # type: ignore[arg-type]
    return 100 * float(np.mean([run.test["hr@10"] for run in runs]))


@pytest.mark.parametrize(("method", "data", "published", "near"), FUSED)
def test_tables_2_and_3(method: str, data: str, published: float, near: float) -> None:
    assert abs(hit_rate(method, data, seeds=3) - published) <= near


@pytest.mark.parametrize(("method", "data", "published", "near"), PLAIN)
def test_neural_methods(method: str, data: str, published: float, near: float) -> None:
    assert abs(hit_rate(method, data, seeds=1, eval_every=2) - published) <= near


def test_noise_costs_as_little_as_published() -> None:
    quiet = hit_rate("pfedrec", "ml-100k", seeds=1)
    for strength, published in NOISE.items():
        noisy = hit_rate("pfedrec", "ml-100k", seeds=1, channel=[f"laplace={strength}"])
        assert abs((noisy - quiet) - (published - 71.62)) <= 2.0


def test_what_is_left_without_the_leak() -> None:
    data = load("ml-100k")
    own, everyone = (
        100 * fedrec.run("pfedrec", data, "strict", 100, view=v).test["hr@10"] for v in ("own", "global")
    )  # type: ignore[arg-type]
    assert 51 <= own <= 62
    assert 58 <= everyone <= 67.5
