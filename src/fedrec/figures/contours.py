"""Lines of equal height on a grid, by marching squares."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Segment = tuple[float, float, float, float]  # from x, y to x, y


def contours(x: NDArray[Any], y: NDArray[Any], z: NDArray[Any], level: float) -> list[Segment]:
    """Segments of the line ``z = level``, where ``z[i, j]`` is the height at ``x[i], y[j]``."""
    found: list[Segment] = []
    for i in range(len(x) - 1):
        for j in range(len(y) - 1):
            corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
            points = []
            for a, b in zip(corners, corners[1:] + corners[:1], strict=True):
                low, high = z[a], z[b]
                if (low < level) != (high < level):
                    t = (level - low) / (high - low)
                    points.append(
                        (
                            float(x[a[0]] + t * (x[b[0]] - x[a[0]])),
                            float(y[a[1]] + t * (y[b[1]] - y[a[1]])),
                        )
                    )
            # Two crossings make one piece; four, on a saddle, two.
            found += [(*points[k], *points[k + 1]) for k in range(0, len(points) - 1, 2)]
    return found


def levels(low: float, high: float, count: int = 10) -> list[float]:
    """Heights that divide what lies between two evenly."""
    return [float(v) for v in np.linspace(low, high, count + 2)[1:-1]] if high > low else []
