"""The loss around a trained model: contours, and the surface (Figures 3 and 1 of FedRecGEL, Yu et al., WWW 2026)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.figures.contours import contours, levels
from fedrec.figures.theme import Chart, altair

TURN, TILT = math.radians(45), math.radians(52)  # of the surface: about the height, then towards the reader
TALL = 0.75  # height of the surface beside its width
DIGITS = 4


def above(loss: NDArray[Any]) -> NDArray[Any]:
    """How much higher the loss is than at the model: losses of methods have levels of their own."""
    middle = len(loss) // 2
    return np.asarray(loss - loss[middle, middle])


def contour(steps: NDArray[Any], loss: NDArray[Any], limits: tuple[float, float] | None = None) -> Chart:
    """The rise of the loss as colour, with lines of equal rise. Shared ``limits`` let charts be compared."""
    alt, rise = altair(), above(loss)
    low, high = limits or (float(rise.min()), float(rise.max()))
    half = (steps[1] - steps[0]) / 2
    full = 1.04 * half  # cells overlap a little: no seams
    cells = [
        {
            "kind": "cell",
            "x": _round(x - full),
            "x2": _round(x + full),
            "y": _round(y - full),
            "y2": _round(y + full),
            "rise": _round(rise[i, j]),
        }
        for i, x in enumerate(steps)
        for j, y in enumerate(steps)
    ]
    lines = [
        {"kind": "line", "x": _round(a), "y": _round(b), "x2": _round(c), "y2": _round(d)}
        for level in levels(low, high)
        for a, b, c, d in contours(steps, steps, rise, level)
    ]
    base = alt.Chart(alt.Data(values=cells + lines))
    edge = [float(steps[0] - half), float(steps[-1] + half)]
    x = alt.X("x:Q", title="first direction", scale=alt.Scale(domain=edge, nice=False))
    y = alt.Y("y:Q", title="second direction", scale=alt.Scale(domain=edge, nice=False))
    fill = base.transform_filter("datum.kind == 'cell'").mark_rect(clip=True)
    fill = fill.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=_colour(low, high), tooltip=_told())
    drawn = base.transform_filter("datum.kind == 'line'").mark_rule(
        color="#ffffff", strokeWidth=0.9, opacity=0.8
    )
    return (fill + drawn.encode(x=x, y=y, x2="x2:Q", y2="y2:Q")).properties(height=300)


def surface(steps: NDArray[Any], loss: NDArray[Any], limits: tuple[float, float] | None = None) -> Chart:
    """The same as a surface seen from above: its facets drawn from the farthest to the nearest."""
    alt, rise = altair(), above(loss)
    low, high = limits or (float(rise.min()), float(rise.max()))
    height = TALL * (rise - low) / max(high - low, 1e-12)
    unit = (steps - steps[0]) / (steps[-1] - steps[0]) - 0.5
    x, y = np.meshgrid(unit, unit, indexing="ij")
    right = x * math.cos(TURN) - y * math.sin(TURN)
    depth = x * math.sin(TURN) + y * math.cos(TURN)
    up = depth * math.cos(TILT) + height * math.sin(TILT)
    facets = []
    for i in range(len(steps) - 1):
        for j in range(len(steps) - 1):
            ring = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1), (i, j)]
            shape = [[_round(right[at]), _round(up[at])] for at in ring]
            mean = float(np.mean([rise[at] for at in ring[:4]]))
            far = float(np.mean([depth[at] for at in ring[:4]]))
            facets.append((far, {"type": "Feature", "rise": _round(mean), "geometry": _polygon(shape)}))
    facets.sort(key=lambda pair: -pair[0])
    chart = alt.Chart(alt.Data(values=[facet for _, facet in facets]))
    return (
        chart.mark_geoshape(strokeWidth=0.4, stroke="#ffffff")
        .encode(color=_colour(low, high), tooltip=_told())
        .project(type="identity", reflectY=True)
        .properties(height=300)
    )


def _colour(low: float, high: float) -> Any:
    alt = altair()
    scale = alt.Scale(scheme="viridis", domain=[low, high])
    legend = alt.Legend(gradientLength=180, format=".2f", tickCount=3)
    return alt.Color("rise:Q", title="loss above the model's", scale=scale, legend=legend)


def _told() -> list[Any]:
    return [altair().Tooltip("rise:Q", title="loss above the model's", format=".4f")]


def _polygon(ring: list[list[float]]) -> dict[str, Any]:
    """Wound as the drawing library asks for, whichever way the facet turned."""
    area = sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring))
    return {"type": "Polygon", "coordinates": [ring if area < 0 else ring[::-1]]}


def _round(value: Any) -> float:
    return round(float(value), DIGITS)
