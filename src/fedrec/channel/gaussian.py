"""Gaussian noise in the sum: behind ``clip`` it states an epsilon for a whole user's data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedrec.channel.stage import Rng, Stage
from fedrec.core.upload import Total, Uploads


class Gaussian(Stage):
    """A trusted server adds N(0, σ²) to every number of the sum before anybody sees it.

    A part that counts a times as much in the norm gets noise of σ/a, and a round with a larger share of the budget
    less of it: σ/√share.
    """

    name: ClassVar[str] = "gaussian"
    noises: ClassVar[bool] = True
    guarantees: ClassVar[bool] = True

    sigma: float = Field(gt=0, description="standard deviation of the noise in a sum")

    @property
    def at_device(self) -> bool:
        return False

    def deviation(self, uploads: Uploads, name: str) -> float:
        return self.sigma / math.sqrt(uploads.share) / uploads.norm(name)

    def multiplier(self, radius: float) -> float:
        return self.sigma / radius

    def trust(self) -> str:
        return "noise by the server (trusted)"

    def assumes(self) -> list[str]:
        return ["noise comes from the run's seed, as in any simulation: a real server keeps its own secret"]

    def on_server(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        sums = {}
        for name, values in total.sums.items():
            noise = rng.standard_normal(values.shape) * self.deviation(uploads, name)
            sums[name] = (values + noise).astype(np.float32)
        return replace(total, sums=sums)
