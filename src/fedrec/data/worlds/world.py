"""A made world: interactions together with the ranking that generated them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedrec.data.interactions import Interactions


@dataclass(frozen=True, eq=False)
class World:
    """``best(users)`` gives a row of scores per user: how likely each item is to be the user's next.

    No ranking of the items a user has not met yet can be better, except by luck. Rows are made when
    asked for, so ask for a chunk of users at a time.
    """

    data: Interactions
    best: Callable[[NDArray[np.int64]], NDArray[np.float64]]
