"""Local differential privacy, honestly: each device hides its whole upload by itself, and trusts nobody.

Any two things that a user's data could be are hidden from each other, so that an upload clipped to R can change by 2R.
Noise of that size on every device is what it costs; sums of it hide far more than they have to.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedrec.channel.stage import Rng, Stage
from fedrec.core.slots import Array
from fedrec.core.upload import Total, Upload, Uploads


class Local(Stage):
    name: ClassVar[str] = "local"
    noises: ClassVar[bool] = True
    guarantees: ClassVar[bool] = True
    relation: ClassVar[str] = "any two histories of a user"

    epsilon: float = Field(gt=0, description="of a user's data against everybody, over all rounds")
    sigma: float | None = Field(None, gt=0, description="noise of one device; found for the rounds of a run")

    @property
    def dense(self) -> bool:
        return True

    def _own(self, uploads: Uploads, name: str) -> float:
        assert self.sigma is not None
        return self.sigma / math.sqrt(uploads.share) / uploads.norm(name)

    def deviation(self, uploads: Uploads, name: str) -> float:
        return math.sqrt(uploads.clients) * self._own(uploads, name)

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        upload = upload.whole(uploads)

        def noisy(name: str, values: Array) -> Array:
            return (values + rng.standard_normal(values.shape) * self._own(uploads, name)).astype(np.float32)

        rows = {n: noisy(n, v) for n, v in upload.rows.items()}
        return replace(upload, rows=rows, dense={n: noisy(n, v) for n, v in upload.dense.items()})

    def has_shortcut(self, uploads: Uploads) -> bool:
        return True

    def in_sum(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        many = math.sqrt(total.clients)
        sums = {
            n: (v + rng.standard_normal(v.shape) * many * self._own(uploads, n)).astype(np.float32)
            for n, v in total.sums.items()
        }
        return replace(total, sums=sums)

    def multiplier(self, radius: float) -> float:
        assert self.sigma is not None
        return self.sigma / (2 * radius)

    def trust(self) -> str:
        return "noise by each device for itself (nobody is trusted)"

    def assumes(self) -> list[str]:
        return ["noise comes from the run's seed, as in any simulation: a real device keeps its own secret"]
