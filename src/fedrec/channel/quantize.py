"""Fewer bits: numbers are rounded at random to one of the two nearest steps, so that sums stay right on average."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedrec.channel.stage import Rng, Stage
from fedrec.core.slots import Array
from fedrec.core.upload import Upload, Uploads


class Quantize(Stage):
    name: ClassVar[str] = "quantize"

    bits: int = Field(ge=2, le=24, description="bits of a number, its sign among them")
    range: float = Field(1.0, gt=0, description="the largest number; what is larger becomes it")

    @property
    def step(self) -> float:
        return self.range / (2 ** (self.bits - 1) - 1)

    @property
    def number(self) -> int:
        return -(-self.bits // 8)

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        def rounded(values: Array) -> Array:
            kept = np.clip(np.nan_to_num(values.astype(np.float64)), -self.range, self.range)
            steps = np.floor(kept / self.step + rng.random(values.shape))
            return (np.clip(steps, -self.most, self.most) * self.step).astype(np.float32)

        rows = {n: rounded(v) for n, v in upload.rows.items()}
        return replace(upload, rows=rows, dense={n: rounded(v) for n, v in upload.dense.items()})

    @property
    def most(self) -> int:
        return 2 ** (self.bits - 1) - 1

    def slack(self, numbers: float) -> float:
        return self.step * numbers**0.5

    def says(self) -> str:
        return f"quantize={self.bits}: numbers beyond ±{self.range:g} are cut, steps are {self.step:.2g}"
