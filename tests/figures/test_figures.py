"""Figures by themselves: colours, contours, and charts that a notebook can call."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import fedrec
from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.figures.contours import contours, levels
from fedrec.figures.theme import DARK, LIGHT

# Full protanopia, deuteranopia and tritanopia (Machado, Oliveira and Fernandes, 2009), on linear RGB.
SEEN: dict[str, Any] = {
    "all colours": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def linear(colour: str) -> Any:
    c = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb: Any) -> Any:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1, 1.089])
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", SEEN)
@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_colours_are_told_apart_by_all_eyes(eyes: str, colours: tuple[str, ...]) -> None:
    """About 2 is the least difference that is seen at all."""
    seen = [lab(np.array(SEEN[eyes]) @ linear(colour)) for colour in colours]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 12


def test_contours_are_where_the_height_is() -> None:
    x = np.linspace(-1, 1, 41)
    height = x[:, None] ** 2 + x[None, :] ** 2
    for level in (0.25, 0.81):
        ends = np.array(contours(x, x, height, level)).reshape(-1, 2)
        assert len(ends) > 40
        np.testing.assert_allclose(np.hypot(*ends.T), np.sqrt(level), atol=0.01)
    assert contours(x, x, height, 9.0) == []
    assert levels(0.0, 0.0) == []
    assert levels(0.0, 11.0) == pytest.approx(list(range(1, 11)))


def test_a_run_draws_itself(small: Interactions) -> None:
    pytest.importorskip("altair", reason="figures are drawn with altair, the extra 'report'")
    run = fedrec.run("pfedrec", small, rounds=3, settings={"dim": 8}, threads=1)
    plot = run.plot
    assert {
        "convergence",
        "ranks",
        "activity",
        "popularity",
        "views",
        "tsne",
        "landscape",
        "spectrum",
    } <= set(dir(plot))
    for chart in (
        plot.convergence("hr", "seconds"), plot.ranks("full"), plot.activity(), plot.popularity(), plot.views(),
        plot.landscape(), plot.landscape("surface"), plot.spectrum(), plot.tsne("global"),
    ):  # fmt: skip
        spec = chart.to_dict()
        assert "datasets" in spec or '"values": [{' in json.dumps(spec), "it has its numbers with it"
        assert spec["config"]["range"]["category"] == list(LIGHT)
    with pytest.raises(FedrecError, match="reports no sparsity"):
        plot.sparsity()
    with pytest.raises(FedrecError, match="contour or surface"):
        plot.landscape("hill")
    central = fedrec.run("popularity", small, threads=1)
    with pytest.raises(FedrecError, match="was not trained in rounds"):
        central.plot.convergence()
    with pytest.raises(FedrecError, match="is not federated"):
        central.plot.views()


def test_sparsity_is_that_of_the_history(small: Interactions) -> None:
    pytest.importorskip("altair", reason="figures are drawn with altair, the extra 'report'")
    run = fedrec.run("fedrap", small, rounds=3, settings={"dim": 8}, threads=1)
    (rows,) = run.plot.sparsity().to_dict()["datasets"].values()
    assert [row["sparsity"] for row in rows] == pytest.approx(
        [100 * s for s in run.history["sparsity"]], rel=1e-4
    )


def test_a_run_shows_itself_in_a_notebook(tastes: Interactions) -> None:
    run = fedrec.run("popularity", tastes)
    html = run._repr_html_()
    assert f"{100 * run.test['hr@10']:.2f}" in html
    assert "control: negative counter" in html
    assert "trained on all data" in fedrec.run("popularity", tastes, all_data=True)._repr_html_()
