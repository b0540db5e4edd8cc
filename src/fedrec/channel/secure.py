"""Sums in fixed point (``fixed``), and sums that nobody can look into (``secure``).

Both round every client's upload to a grid and add whole numbers up: the same bits in any order of clients, blocks,
threads, processes and machines. ``secure`` stands for secure aggregation (Bonawitz et al., "Practical Secure
Aggregation for Privacy-Preserving Machine Learning", CCS 2017): devices add masks that cancel in the sum, so that a
server learns the sum and nothing else. In a simulation masks would add up to nothing, and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from fedrec.channel.stage import Rng, Stage
from fedrec.core.errors import FedrecError
from fedrec.core.fixed import Grid
from fedrec.core.upload import Total, Uploads


class Fixed(Stage):
    name: ClassVar[str] = "fixed"
    hides_single: ClassVar[bool] = True
    in_steps: ClassVar[bool] = True
    draws: ClassVar[bool] = False  # uploads are rounded while they are added up

    bits: int = Field(16, ge=1, le=40, description="numbers are rounded to multiples of 2^−bits")
    word: int = Field(
        64, ge=16, le=64, multiple_of=8, description="bits of a number on the wire, sums included"
    )

    @property
    def grid(self) -> Grid:
        return Grid(self.bits, self.word)

    @property
    def number(self) -> int:
        return self.word // 8

    def slack(self, numbers: float) -> float:
        return math.sqrt(numbers) * 2.0 ** -(self.bits + 1)

    def has_shortcut(self, uploads: Uploads) -> bool:
        return True  # what devices do is to round, and that is done while sums are taken

    def in_sum(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        return total

    def on_server(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        return self.grid.opened(total)


class Secure(Fixed):
    name: ClassVar[str] = "secure"

    @property
    def dense(self) -> bool:
        return True  # which rows are sent would tell what was met

    def says(self) -> str:
        return (
            "secure: the server sees sums of a round and no single upload; two rounds that differ by one client, and "
            "what is learned in the end, are not covered: that takes noise"
        )


def grid_of(stages: Sequence[Stage], clients: int) -> Grid | None:
    """The grid of a channel that adds up in fixed point; nothing may come between it and the sum."""
    fixed = [stage for stage in stages if isinstance(stage, Fixed)]
    if not fixed:
        return None
    if len(fixed) > 1 or stages[-1] is not fixed[0]:
        raise FedrecError(f"channel '{fixed[0].name}' adds uploads up: give it once, after all other stages")
    fixed[0].grid.most(clients)  # refuses where there is no room
    return fixed[0].grid
