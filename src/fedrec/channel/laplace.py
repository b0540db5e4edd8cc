"""Laplace noise on uploads, the "local differential privacy" of the papers.

Zhang et al., IJCAI 2023, Section 6.6 (Table 4): each client adds Laplace(0, strength) to its item
table before it uploads it; here to everything else that it uploads as well. Without clipping this states no
epsilon, and it hides little: the sign of an upload's first principal component still tells positives from
negatives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrec.channel.stage import Rng, Stage
from fedrec.core.slots import Array
from fedrec.core.upload import Total, Upload, Uploads


class Laplace(Stage):
    name: ClassVar[str] = "laplace"
    noises: ClassVar[bool] = True

    strength: float = Field(ge=0, description="scale of the noise; the paper tries 0 to 0.5")
    rows: Literal["all", "touched"] = Field(
        "all",
        description="noise on the whole table (the paper's), or on touched rows, which shows which they are",
    )

    @property
    def dense(self) -> bool:
        return self.rows == "all"

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        """One client's: on its tables, on other arrays, and on its weight where that says something of it."""
        if self.strength == 0:
            return upload
        tables = {n: s for n, s in uploads.arrays.items() if s.rows}
        if self.rows == "all" and tables:
            upload = upload.whole(uploads)
        rows = {n: v + self._noise(v.shape, rng) for n, v in upload.rows.items()}
        dense = {n: v + self._noise(v.shape, rng) for n, v in upload.dense.items()}
        weights = upload.weights
        if uploads.weight == "samples":
            weights = weights + self._noise(weights.shape, rng)
        return replace(upload, rows=rows, dense=dense, weights=weights)

    def _noise(self, shape: tuple[int, ...], rng: Rng) -> Array:
        return rng.laplace(0.0, self.strength, shape).astype(np.float32)

    def has_shortcut(self, uploads: Uploads) -> bool:
        """For noise everywhere on uploads that all count the same."""
        return self.strength == 0 or (self.rows == "all" and uploads.weight == "client")

    def in_sum(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        """The sum of n Laplace variables is the difference of two Gamma(n) variables: exact, and cheap."""
        if self.strength == 0 or total.clients == 0:
            return total
        sums = {}
        for name, values in total.sums.items():
            up, down = (rng.standard_gamma(total.clients, values.shape) for _ in range(2))
            sums[name] = values + (self.strength * (up - down)).astype(np.float32)
        return replace(total, sums=sums)

    def says(self) -> str:
        return (
            f"laplace={self.strength:g} states no epsilon (nothing is clipped), and a single upload still "
            "tells positives from negatives: it is the papers' noise, not a privacy guarantee"
        )
