"""Figures of what models learned: views, rows as one client sees them, landscapes, spectra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fedrec.figures.landscape import above, contour, surface
from fedrec.figures.spectrum import spectrum
from fedrec.figures.tsne import tsne
from fedrec.figures.views import views
from fedrec.report import models as m
from fedrec.report.drawn import Figure, Panel
from fedrec.report.groups import Group
from fedrec.study.embedding import NEAREST

VIEWS = {"own": "its own rows", "global": "the global table"}


def inside_of(group: Group, models: m.Models) -> Iterator[Figure]:
    """All figures that models are at hand for."""
    if models.views:
        yield _views(group, models)
    if models.seen:
        yield _rows(models)
    if models.landscapes:
        yield _landscapes(models)
    if models.spectra:
        yield _spectra(group, models)


def _views(group: Group, models: m.Models) -> Figure:
    found = m.view_numbers(models)
    values = "; ".join(
        f"{label}: "
        + ", ".join(
            f"{row['view']} {row['hr']:.1f}" for row in found.filter(method=label).iter_rows(named=True)
        )
        for label in models.views
    )
    panels = [
        Panel(metric, "", f"{name}@10 under each view. {values}.", views(found, metric, group.methods))
        for metric, name in (("hr", "HR"), ("ndcg", "NDCG"))
    ]
    caption = (
        "The same trained model, ranked with a client's own item rows, with the server's table, and with the rows of "
        "another client (Figure 3 of PFedRec). Intervals are 95% over users."
    )
    return Figure("views", "Whose rows rank best?", caption, panels, found, f"HR@10, {values}.")


def _rows(models: m.Models) -> Figure:
    found = m.row_numbers(models)
    panels, said = [], []
    # Those with two views first: the two stand side by side.
    for label, seen in sorted(models.seen.items(), key=lambda pair: -len(pair[1])):
        for one in seen:
            title = f"{label}: {VIEWS[one.view]}"
            near = f"{100 * one.nearness:.0f}%"
            alt = f"{title}. {near} of a positive's {NEAREST} nearest rows are positives."
            panels.append(Panel(f"{label}-{one.view}", title, alt, tsne(found, label, one.view)))
            said.append(f"{label}, {VIEWS[one.view]}, {near}")
    first = next(iter(models.seen.values()))[0]
    caption = (
        f"{len(first.items)} item rows as client {models.client} sees them, {int(first.positive.sum())} of which it "
        "trained on as positives (Figure 2 of PFedRec), laid out by t-SNE. Distances between clusters mean nothing. "
        "A client trains its own rows on its positives, so that these move together; that alone is no proof of a "
        "better ranking."
    )
    chance = f"{100 * first.chance:.0f}% by chance"
    finding = f"Positives among a positive's {NEAREST} nearest rows ({chance}): {'; '.join(said)}."
    return Figure("rows", "How does one client see the items?", caption, panels, found, finding, pairs=True)


def _landscapes(models: m.Models) -> Figure:
    found = m.landscape_numbers(models)
    rises = [above(one.loss) for one in models.landscapes.values()]
    low, high = min(float(rise.min()) for rise in rises), max(float(rise.max()) for rise in rises)
    panels, said = [], []
    for label, one in models.landscapes.items():
        words = f"loss {one.centre:.3f} at the model, {one.rise:.3f} higher on the rim"
        said.append(f"{label}: {words}")
        for key, draw, kind in (("contour", contour, "contours"), ("surface", surface, "surface")):
            chart: Any = draw(one.steps, one.loss, (low, high))
            panels.append(
                Panel(f"{label}-{key}", f"{label}, {kind}", f"Loss landscape of {label}: {words}.", chart)
            )
    any_one = next(iter(models.landscapes.values()))
    caption = (
        f"Mean cross-entropy of {any_one.clients} sampled clients, on at most {m.SAMPLES} samples of each, on a plane "
        "through the shared parameters; at 1 every row has moved by its own length (Figures 1 and 3 of FedRecGEL). "
        "Drawn is how much higher it is than at the model, all on one scale."
    )
    return Figure(
        "landscape", "How flat is the minimum?", caption, panels, found, "; ".join(said) + ".", pairs=True
    )


def _spectra(group: Group, models: m.Models) -> Figure:
    found = m.spectrum_numbers(models)
    said = []
    for label, one in models.spectra.items():
        ranks = [f"{name} {figures['effective_rank']:.1f}" for name, figures in one.summary().items()]
        said.append(f"{label}: {', '.join(ranks)}")
    caption = (
        "Singular values of the item tables as shares of the largest (PLGC's dimensional collapse): the faster a line "
        f"falls, the fewer directions are used. Own rows are means over {m.SAMPLED} sampled clients, beside the global "
        "rows of the same items (matched): fewer rows alone make a smaller rank."
    )
    finding = f"Effective ranks, {'; '.join(said)}."
    alt = f"Singular values of item tables. {finding}"
    return Figure(
        "spectrum",
        "How many directions does it use?",
        caption,
        [Panel("spectrum", "", alt, spectrum(found, group.methods))],
        found,
        finding,
    )
