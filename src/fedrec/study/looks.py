"""Looks at what runs learned, as numbers that a figure is drawn from, with the columns that it takes."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fedrec.core.errors import FedrecError
from fedrec.core.files import write
from fedrec.evaluate.metrics import each_user
from fedrec.runs import api
from fedrec.runs.history import read_history
from fedrec.runs.run import Run
from fedrec.study.case import K, Line
from fedrec.study.collapse import collapse
from fedrec.study.landscape import landscape

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Look:
    """Numbers of a figure, what they say in a small table, and what draws them."""

    numbers: pl.DataFrame
    summary: pl.DataFrame
    draw: Callable[[], Any]


def views(lines: Sequence[Line]) -> dict[str, Look]:
    """Own, global and another client's rows, each run ranked once more."""
    import polars as pl

    rows = []
    for line, run in _runs(lines):
        assert run.federated is not None
        for view in run.federated.views:
            gains = _gains(run, view)
            facts: dict[str, Any] = {"data": line.case.data_name, "protocol": line.case.protocol_name}
            facts |= {
                "method": f"{line.case.name}, {line.case.protocol_name}",
                "view": view,
                "seed": run.config.seed,
            }
            for name, values in gains.items():
                mean, wide = 100 * values.mean(), 196 * values.std() / np.sqrt(len(values))
                facts |= {name: mean, f"{name}_low": mean - wide, f"{name}_high": mean + wide}
            rows.append(facts)
    if not rows:
        return {}
    numbers = pl.DataFrame(rows)
    keys = ["data", "protocol", "view"]
    summary = numbers.group_by(keys, maintain_order=True).agg(pl.col("hr").mean(), pl.col("ndcg").mean())
    first = numbers.filter(pl.col("seed") == pl.col("seed").min(), pl.col("data") == numbers["data"][0])
    return {"views": Look(numbers, summary, partial(_draw, "views", "views", first))}


def _gains(run: Run, view: Any) -> dict[str, Any]:
    ranks = run.ranks_under(view)
    hit = (ranks.ahead < K).astype(np.float64)
    gain = hit / np.log2(ranks.ahead + 2.0)
    return {"hr": each_user(hit, ranks.users), "ndcg": each_user(gain, ranks.users)}


def convergence(lines: Sequence[Line]) -> dict[str, Look]:
    """Validation figures and loss by round, seconds and megabytes."""
    import polars as pl

    rows = []
    for line in lines:
        for folder, result in zip(line.folders, line.results, strict=True):
            seconds = megabytes = 0.0
            for said in read_history(folder / "history.jsonl"):
                seconds += said["fit_seconds"]
                megabytes += (said["bytes_up"] + said["bytes_down"]) / 1e6
                figures = said.get("validation") or {}
                rows.append(
                    {
                        "data": line.case.data_name, "protocol": line.case.protocol_name,
                        "method": line.case.name, "seed": result["seed"], "round": said["round"],
                        "seconds": seconds, "megabytes": megabytes, "loss": said.get("loss", np.nan),
                        "hr": 100 * figures.get("hr@10", np.nan), "ndcg": 100 * figures.get("ndcg@10", np.nan),
                        "selected": said["round"] == result["selected_round"],
                    }
                )  # fmt: skip
    if not rows:
        return {}
    numbers = pl.DataFrame(rows)
    keys = ["data", "protocol", "method", "round"]
    tenth = numbers.filter((pl.col("round") % 10 == 0) | (pl.col("round") == 1))
    summary = tenth.group_by(keys, maintain_order=True).agg(pl.col("loss", "hr", "ndcg").mean())
    found = {}
    for (protocol,), part in numbers.group_by("protocol", maintain_order=True):
        means = part.group_by(keys, maintain_order=True).agg(
            pl.col("seconds", "megabytes", "loss", "hr", "ndcg").mean(), pl.col("selected").any()
        )
        said_here = summary.filter(pl.col("protocol") == protocol)
        found[f"convergence-{protocol}"] = Look(
            part, said_here, partial(_draw, "convergence", "convergence", means)
        )
    return found


def landscapes(lines: Sequence[Line]) -> dict[str, Look]:
    """The loss on a plane through the shared parameters, for every run; the same plane and samples for all."""
    import polars as pl

    found, rows = {}, []
    for line, run in _runs(lines):
        around = landscape(run)
        steps = around.steps
        grid = [(x, y, around.loss[i, j]) for i, x in enumerate(steps) for j, y in enumerate(steps)]
        rows.append((line.case.data_name, line.case.name, run.config.seed, around.centre, around.rise))
        columns = ["data", "method", "seed", "loss", "rise at the rim"]
        summary = pl.DataFrame(rows, schema=columns, orient="row")
        name = f"landscape-{line.case.name}-s{run.config.seed}".replace(" ", "-").replace("'", "")
        numbers = pl.DataFrame(grid, schema=["first", "second", "loss"], orient="row")
        found[name] = Look(numbers, summary[-1:], partial(_draw, "landscape", "contour", steps, around.loss))
    return found


def spectra(lines: Sequence[Line]) -> dict[str, Look]:
    """Singular values of the global tables and of the rows that sampled clients rank with."""
    import polars as pl

    kinds = {"tables": "global", "personal": "own", "matched": "global, same items"}
    rows, said = [], []
    for line, run in _runs(lines):
        found = collapse(run)
        about = {"protocol": line.case.protocol_name, "method": line.case.name, "seed": run.config.seed}
        for attribute, table in kinds.items():
            for slot, value in getattr(found, attribute).items():
                each = [value] if attribute == "tables" else list(value.values())
                if not each:
                    continue
                wide = max(len(one.singular_values) for one in each)
                shares = np.zeros((len(each), wide))
                for i, one in enumerate(each):
                    top = max(float(one.singular_values[0]), 1e-12)
                    shares[i, : len(one.singular_values)] = one.singular_values / top
                facts = {**about, "table": table, "slot": slot}
                rows += [{**facts, "index": i + 1, "share": v} for i, v in enumerate(shares.mean(axis=0))]
                rank, top = (
                    np.mean([getattr(one, name) for one in each]) for name in ("effective_rank", "top_share")
                )
                said.append({**facts, "effective rank": rank, "strongest": top})
    if not rows:
        return {}
    numbers, summary = pl.DataFrame(rows), pl.DataFrame(said)
    return {
        f"spectra-{protocol}": Look(
            part, summary.filter(pl.col("protocol") == protocol),
            partial(_draw, "spectrum", "spectrum", part),
        )
        for (protocol,), part in numbers.group_by("protocol", maintain_order=True)
    }  # fmt: skip


def embeddings(lines: Sequence[Line]) -> dict[str, Look]:
    """Where t-SNE puts item rows as one client has them, its positives marked, and how near these are."""
    import polars as pl

    seen_by = _part("fedrec.study.embedding", "embedding")
    found = {}
    for line, run in _runs(lines):
        titles = run.split.data
        for seen in seen_by(run):
            places = seen.places()
            method, view = f"{line.case.name}, {line.case.protocol_name}", str(seen.view)
            numbers = pl.DataFrame(
                {
                    "method": method, "view": view, "x": places[:, 0], "y": places[:, 1],
                    "item": [titles.title(int(item)) for item in seen.items],
                    "kind": np.where(seen.positive, "positive", "other"),
                }
            )  # fmt: skip
            summary = pl.DataFrame(
                {
                    "method": [method],
                    "view": [view],
                    "positives near positives": [seen.nearness],
                    "chance": [seen.chance],
                }
            )
            found[f"embedding-{line.case.protocol_name}-{view}"] = Look(
                numbers, summary, partial(_draw, "tsne", "tsne", numbers, method, view)
            )
    return found


def drawn(look: Look, path: Path) -> str:
    """Draw the figure as SVG; a sentence where that cannot be done."""
    try:
        chart = look.draw()
        themed = _part("fedrec.figures.theme", "shown")(chart, "paper")
        text = io.StringIO()
        themed.save(text, format="svg")
        write(path, text.getvalue())
    except FedrecError as error:
        return str(error)
    except ImportError:
        return "figures are saved with vl-convert, which is not installed: pip install 'fedrec[report]'"
    return ""


def _draw(module: str, name: str, *numbers: Any) -> Any:
    return _part(f"fedrec.figures.{module}", name)(*numbers)


def _part(module: str, name: str) -> Any:
    """A part of fedrec that draws; a sentence where this version has none."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError:
        raise FedrecError(
            f"this fedrec cannot draw it ({module} is missing): the numbers are written"
        ) from None


def _runs(lines: Sequence[Line]) -> Any:
    """Every run with its model, opened one at a time."""
    for line in lines:
        for folder in line.folders:
            yield line, api.open(folder)
