"""What a figure needs and a run does not store: computed from the model it kept, with a bound on the work.

Views, rows of one client, landscape and spectra are of the first seed of at most so many cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedrec.core.errors import FedrecError
from fedrec.data.interactions import Interactions
from fedrec.evaluate.metrics import Ranks
from fedrec.report.groups import Case, Group, K
from fedrec.report.numbers import Z95, wilson
from fedrec.runs import api
from fedrec.runs.run import Run
from fedrec.study.collapse import Collapse, collapse, simulation_of
from fedrec.study.embedding import Seen, client_for, embedding
from fedrec.study.landscape import Landscape, landscape

MOST = 4  # cases that are looked into
ROWS, SAMPLED = 600, 50  # item rows that are laid out; clients of landscapes and spectra
SAMPLES = 100  # of each of them, for landscapes
ITEM = 40  # letters of a title
Say = Callable[[str], None]


@dataclass
class Models:
    """By label of a case."""

    client: int | None = None
    views: dict[str, dict[str, Ranks]] = field(default_factory=dict)
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    places: dict[tuple[str, str], Any] = field(default_factory=dict)
    landscapes: dict[str, Landscape] = field(default_factory=dict)
    spectra: dict[str, Collapse] = field(default_factory=dict)
    titles: list[str] | None = None
    notes: list[str] = field(default_factory=list)


def cases_with_models(group: Group, most: int = MOST) -> tuple[list[Case], list[Case]]:
    """The cases that are looked into, best on validation first, and those left out."""
    some = [case for case in group.cases if not case.central and case.first.has_model]
    some.sort(key=lambda case: -case.mean("ndcg@10", part="validation"))
    return some[:most], some[most:]


def models_of(
    group: Group, data: Interactions | None, most: int = MOST, say: Say = lambda text: None
) -> Models:
    found = Models()
    chosen, left = cases_with_models(group, most)
    if left and most:
        names = ", ".join(case.label for case in left)
        found.notes.append(f"Figures of models are of the {most} best on validation, without {names}.")
    for case in chosen:
        try:
            say(f"{case.label} on {group.data}: opening")
            run = api.open(case.first.path, data)
            look(found, case.label, run, lambda what, name=case.label: say(f"{name} on {group.data}: {what}"))  # type: ignore[misc]
        except FedrecError as error:
            found.notes.append(f"There are no figures of the model of {case.label}: {error}.")
    return found


def look(found: Models, label: str, run: Run, say: Say = lambda text: None) -> None:
    """Everything about one model."""
    simulation = run.federated
    assert simulation is not None
    if len(simulation.views) > 1:
        say("views")
        found.views[label] = ranks_by_view(run)
    for what, work in (
        ("spectra", lambda: found.spectra.__setitem__(label, collapse(run, SAMPLED))),
        (
            "landscape",
            lambda: found.landscapes.__setitem__(label, landscape(run, clients=SAMPLED, samples=SAMPLES)),
        ),
        ("t-SNE", lambda: lay_out(found, label, run)),
    ):
        say(what)
        try:
            work()
        except FedrecError as error:  # a method without item tables has no such figure
            found.notes.append(f"{label}: {error}.")


def ranks_by_view(run: Run) -> dict[str, Ranks]:
    """Test ranks of the selected round under each view that its clients have."""
    simulation = simulation_of(run, "a comparison of views")
    return {view: run.ranks_under(view) for view in simulation.views}


def lay_out(found: Models, label: str, run: Run) -> None:
    found.client = client_for(run) if found.client is None else found.client
    seen = embedding(run, found.client, ROWS)
    found.places |= {(label, one.view): one.places() for one in seen}
    found.seen[label] = seen
    found.titles = [run.split.data.title(i)[:ITEM] for i in range(run.split.n_items)]


def view_numbers(models: Models) -> Any:
    import polars as pl

    rows = []
    for label, views in models.views.items():
        for view, ranks in views.items():
            hit = ranks.ahead < K
            gain = hit / np.log2(ranks.ahead + 2.0)
            low, high = wilson(float(hit.mean()), len(hit))
            error = Z95 * float(gain.std(ddof=1)) / math.sqrt(len(gain))
            row = {"method": label, "view": view, "hr": hit.mean(), "hr_low": low, "hr_high": high}
            row |= {"ndcg": gain.mean(), "ndcg_low": gain.mean() - error, "ndcg_high": gain.mean() + error}
            rows.append({k: v if isinstance(v, str) else round(100 * float(v), 3) for k, v in row.items()})
    return pl.DataFrame(rows)


def row_numbers(models: Models) -> Any:
    """Where t-SNE puts the rows, and which are the client's positives."""
    import polars as pl

    rows = []
    for label, seen in models.seen.items():
        for one in seen:
            places = models.places[label, one.view]
            for item, (x, y), positive in zip(one.items, places, one.positive, strict=True):
                title = models.titles[item] if models.titles else str(item)
                kind = "positive" if positive else "other"
                at = {"x": round(float(x), 2), "y": round(float(y), 2)}
                rows.append({"method": label, "view": one.view, **at, "item": title, "kind": kind})
    # Positives last: they are drawn over the others.
    return pl.DataFrame(rows).sort("kind", maintain_order=True) if rows else pl.DataFrame()


def landscape_numbers(models: Models) -> Any:
    import polars as pl

    rows = [
        {
            "method": label,
            "first": round(float(a), 4),
            "second": round(float(b), 4),
            "loss": round(float(one.loss[i, j]), 5),
        }
        for label, one in models.landscapes.items()
        for i, a in enumerate(one.steps)
        for j, b in enumerate(one.steps)
    ]
    return pl.DataFrame(rows)


def spectrum_numbers(models: Models) -> Any:
    """Singular values as shares of the largest; of clients' own rows the mean over those sampled."""
    import polars as pl

    rows: list[dict[str, Any]] = []
    for label, found in models.spectra.items():
        kinds = {("global", slot): [s] for slot, s in found.tables.items()}
        kinds |= {("own", slot): list(by.values()) for slot, by in found.personal.items()}
        kinds |= {("global, same items", slot): list(by.values()) for slot, by in found.matched.items()}
        for (table, slot), spectra in kinds.items():
            shares = _mean_share([s.singular_values for s in spectra])
            rows += [
                {"method": label, "table": table, "slot": slot, "index": k, "share": round(float(v), 5)}
                for k, v in enumerate(shares, 1)
            ]
    return pl.DataFrame(rows)


def _mean_share(values: Sequence[Any]) -> Any:
    """Beyond its own rows a client's table has no further direction."""
    long = max(map(len, values), default=0)
    padded = [np.pad(v / v[0], (0, long - len(v))) for v in values if len(v) and v[0] > 0]
    return np.mean(padded, axis=0) if padded else np.zeros(0)
