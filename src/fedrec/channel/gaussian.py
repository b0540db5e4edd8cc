"""Noise in the sum: behind ``clip`` it states an epsilon for a whole user's data.

``where=server``: a trusted server adds Gaussian noise to the sum before anybody sees it. ``where=devices``: each device
adds its share, so that a server that sees nothing but sums (``secure``) never has one without noise. Shares have to be
whole numbers of a grid's steps: they are Skellam variables, the difference of two Poissons, whose sum is Skellam again
(Agarwal, Kairouz & Liu, "The Skellam Mechanism for Differentially Private Federated Learning", NeurIPS 2021).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.channel.stage import Rng, Stage
from fedrec.core.upload import Total, Upload, Uploads


class Gaussian(Stage):
    """N(0, σ²) in every number of the sum.

    A part that counts a times as much in the norm gets noise of σ/a, and a round with a larger share of the budget
    less of it: σ/√share.
    """

    name: ClassVar[str] = "gaussian"
    noises: ClassVar[bool] = True
    guarantees: ClassVar[bool] = True
    in_steps: ClassVar[bool] = True

    sigma: float = Field(gt=0, description="standard deviation of the noise in a sum")
    where: Literal["server", "devices"] = Field("server", description="who adds it")
    honest: float = Field(
        1.0, gt=0, le=1, description="share of devices whose noise is counted on: others drop out or look"
    )
    bits: int = Field(16, ge=4, le=20, description="devices' noise is in steps of 2^−bits")

    @property
    def at_device(self) -> bool:
        return self.where == "devices"

    @property
    def dense(self) -> bool:
        return self.at_device  # noise on touched rows would show which they are

    def deviation(self, uploads: Uploads, name: str) -> float:
        return self.sigma / math.sqrt(uploads.share) / uploads.norm(name)

    def on_server(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        if self.at_device:
            return total
        sums = {}
        for name, values in total.sums.items():
            noise = rng.standard_normal(values.shape) * self.deviation(uploads, name)
            sums[name] = (values + noise).astype(np.float32)
        return replace(total, sums=sums)

    # -- noise of devices ----------------------------------------------------------------------

    def rate(self, uploads: Uploads, name: str) -> float:
        """Of each Poisson on one device, in steps: half of its share of the variance."""
        steps = self.deviation(uploads, name) * 2.0**self.bits
        return steps**2 / 2 / (self.honest * uploads.clients)

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        upload = upload.whole(uploads)

        def noisy(name: str, values: NDArray[Any]) -> Any:
            steps = np.rint(values.astype(np.float64) * 2.0**self.bits)
            return ((steps + skellam(rng, self.rate(uploads, name), values.shape)) * 2.0**-self.bits).astype(
                np.float32
            )

        rows = {n: noisy(n, v) for n, v in upload.rows.items()}
        return replace(upload, rows=rows, dense={n: noisy(n, v) for n, v in upload.dense.items()})

    def has_shortcut(self, uploads: Uploads) -> bool:
        return True

    def in_sum(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        """The sum of the devices' Skellam variables is one. Sums may be numbers, or steps of the same grid."""
        sums: Any = {}
        for name, values in total.sums.items():
            noise = skellam(rng, total.clients * self.rate(uploads, name), values.shape)
            if values.dtype == np.int64:
                sums[name] = values + noise.astype(np.int64)
            else:
                sums[name] = (values + noise * 2.0**-self.bits).astype(np.float32)
        return replace(total, sums=sums)

    # -- the guarantee -------------------------------------------------------------------------

    def multiplier(self, radius: float) -> float:
        return self.sigma / radius

    def excess(self, uploads: Uploads, name: str) -> float:
        return (self.sigma / uploads.norm(name) * 2.0**self.bits) ** -2 if self.at_device else 0.0

    def slack(self, numbers: float) -> float:
        return math.sqrt(numbers) * 2.0 ** -(self.bits + 1) if self.at_device else 0.0

    def trust(self) -> str:
        if not self.at_device:
            return "noise by the server (trusted)"
        return f"noise by devices (≥ {self.honest:.0%} honest and present), sums only to the server"

    def assumes(self) -> list[str]:
        source = "noise comes from the run's seed, as in any simulation: a real {} keeps its own secret"
        return [source.format("device" if self.at_device else "server")]


def skellam(rng: Rng, rate: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The difference of two Poisson variables; its variance is twice the rate."""
    return (rng.poisson(rate, shape) - rng.poisson(rate, shape)).astype(np.float64)
