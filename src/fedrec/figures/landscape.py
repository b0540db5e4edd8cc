"""The loss around a trained model: contours, and the surface (Figures 3 and 1 of FedRecGEL, Yu et al., WWW 2026)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedrec.figures.contours import contours, levels
from fedrec.figures.theme import Chart, altair

TURN, TILT = math.radians(45), math.radians(62)  # of the surface: about the height, then towards the reader
TALL = 0.9  # height of the surface beside its width
DIGITS = 4


def contour(steps: NDArray[Any], loss: NDArray[Any], limits: tuple[float, float] | None = None) -> Chart:
    """The loss as colour with lines of equal loss. ``limits`` of the colours let charts be compared."""
    alt = altair()
    half = (steps[1] - steps[0]) / 2
    cells = [
        {
            "kind": "cell",
            "x": _round(x - half),
            "x2": _round(x + half),
            "y": _round(y - half),
            "y2": _round(y + half),
            "loss": _round(loss[i, j]),
        }
        for i, x in enumerate(steps)
        for j, y in enumerate(steps)
    ]
    lines = [
        {"kind": "line", "x": _round(a), "y": _round(b), "x2": _round(c), "y2": _round(d)}
        for level in levels(loss)
        for a, b, c, d in contours(steps, steps, loss, level)
    ]
    base = alt.Chart(alt.Data(values=cells + lines))
    edge = [float(steps[0] - half), float(steps[-1] + half)]
    x = alt.X("x:Q", title="first direction", scale=alt.Scale(domain=edge, nice=False))
    y = alt.Y("y:Q", title="second direction", scale=alt.Scale(domain=edge, nice=False))
    colours = alt.Color(
        "loss:Q", title="loss", scale=_scale(loss, limits), legend=alt.Legend(gradientLength=180)
    )
    fill = base.transform_filter("datum.kind == 'cell'").mark_rect(strokeWidth=0.6)
    fill = fill.encode(
        x=x,
        y=y,
        x2="x2:Q",
        y2="y2:Q",
        color=colours,
        stroke=alt.Stroke("loss:Q", scale=_scale(loss, limits), legend=None),
        tooltip=[alt.Tooltip("loss:Q", format=".4f")],
    )
    drawn = base.transform_filter("datum.kind == 'line'").mark_rule(
        color="#ffffff", strokeWidth=0.9, opacity=0.8
    )
    return (fill + drawn.encode(x=x, y=y, x2="x2:Q", y2="y2:Q")).properties(height=300)


def surface(steps: NDArray[Any], loss: NDArray[Any], limits: tuple[float, float] | None = None) -> Chart:
    """The same as a surface seen from above: its facets drawn from the farthest to the nearest."""
    alt = altair()
    low, high = limits or (float(loss.min()), float(loss.max()))
    height = TALL * (loss - low) / max(high - low, 1e-12)
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
            mean = float(np.mean([loss[at] for at in ring[:4]]))
            far = float(np.mean([depth[at] for at in ring[:4]]))
            facets.append((far, {"type": "Feature", "loss": _round(mean), "geometry": _polygon(shape)}))
    facets.sort(key=lambda pair: -pair[0])
    chart = alt.Chart(alt.Data(values=[facet for _, facet in facets]))
    return (
        chart.mark_geoshape(strokeWidth=0.4, stroke="#ffffff")
        .encode(
            color=alt.Color(
                "loss:Q", title="loss", scale=_scale(loss, limits), legend=alt.Legend(gradientLength=180)
            ),
            tooltip=[alt.Tooltip("loss:Q", format=".4f")],
        )
        .project(type="identity", reflectY=True)
        .properties(height=300)
    )


def _scale(loss: NDArray[Any], limits: tuple[float, float] | None) -> Any:
    low, high = limits or (float(loss.min()), float(loss.max()))
    return altair().Scale(scheme="viridis", domain=[low, high])


def _polygon(ring: list[list[float]]) -> dict[str, Any]:
    """Wound as the drawing library asks for, whichever way the facet turned."""
    area = sum(a[0] * b[1] - b[0] * a[1] for a, b in pairwise(ring))
    return {"type": "Polygon", "coordinates": [ring if area < 0 else ring[::-1]]}


def _round(value: Any) -> float:
    return round(float(value), DIGITS)
