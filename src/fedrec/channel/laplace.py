"""Laplace noise on uploads, the "local differential privacy" of the papers.

Zhang et al., IJCAI 2023, Section 6.6 (Table 4): each client adds Laplace(0, strength) to its item
table before it uploads it. Without clipping this states no epsilon, and it hides little: the sign of
an upload's first principal component still tells positives from negatives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedrec.channel.stage import Stage
from fedrec.core.federated import Total
from fedrec.core.rng import generator

NOISE = "laplace"


class Laplace(Stage):
    name: ClassVar[str] = "laplace"

    strength: float = Field(ge=0, description="scale of the noise; the paper tries 0 to 0.5")
    rows: Literal["all", "touched"] = Field(
        "all",
        description="noise on the whole table (the paper's), or on touched rows, which shows which they are",
    )

    @property
    def dense(self) -> bool:
        return self.rows == "all"

    def in_sum(self, total: Total, seed: int, round: int) -> Total:
        """The sum of n Laplace variables is the difference of two Gamma(n) variables: exact, and cheap.

        Devices weigh their noise like the rest of their upload; unequal weights are met by their mean.
        """
        if self.strength == 0 or total.clients == 0:
            return total
        weight = total.weight / total.clients
        rng = generator(seed, NOISE, round)
        sums = dict(total.sums)
        for name, senders in total.counts.items():
            n = np.full_like(senders, total.clients) if self.rows == "all" else senders
            shape = n.reshape(-1, *([1] * (sums[name].ndim - 1))) + np.zeros(sums[name].shape)
            noise = rng.standard_gamma(shape) - rng.standard_gamma(shape)
            sums[name] = sums[name] + (self.strength * weight * noise).astype(np.float32)
        return replace(total, sums=sums)

    def says(self) -> str:
        return (
            f"laplace={self.strength:g} states no epsilon (nothing is clipped), and a single upload still "
            "tells positives from negatives: it is the papers' noise, not a privacy guarantee"
        )
