"""The page of a comparison, as Markdown: what was measured, how, beside what was published and the controls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from fedrec.core.protocol import protocol
from fedrec.study.compare import Line, Paired, holm, paired
from fedrec.study.published import published

CERTAIN = 0.05  # corrected p-values below it are marked


def page(
    lines: Sequence[Line], title: str = "Accuracy", reference: str = "fedmf", day: date | None = None
) -> str:
    """All lines, a section for each protocol and data set."""
    versions: dict[str, str] = next((line.results[0]["versions"] for line in lines if line.results), {})
    text = [
        f"# {title}",
        "",
        f"Made on {day or date.today()} with "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
        + ". This page is written by `benchmarks/accuracy.py`; nothing in it is typed by hand.",
        "",
        "HR@10 and NDCG@10 in percent: mean ± standard deviation over seeds, of the round selected on "
        "validation. *Full* ranks the whole catalogue instead of 99 sampled items. "
        f"The column *− {reference}* is the difference in NDCG@10, paired over users (and over the seeds that "
        f"both have); * marks p < {CERTAIN} "
        "(Wilcoxon's signed-rank test, corrected by Holm within a table).",
        "",
    ]
    for name, data in dict.fromkeys((line.case.protocol, line.case.data_name) for line in lines):
        part = [x for x in lines if (x.case.protocol, x.case.data_name) == (name, data)]
        text += _section(name, data, part, reference)
    return "\n".join(text)


def _section(name: str, data: str, lines: Sequence[Line], reference: str) -> list[str]:
    done = sorted((x for x in lines if x.results), key=lambda x: -x.mean("ndcg@10"))
    text = [f"## {data}, protocol `{name}`", ""]
    if done:
        text += [*_about(name, done[0].results[0]), "", *_table(done, reference), ""]
    sources = {found.source for x in done if (found := _published(x))}
    text += [f"Published: {source}." for source in sorted(sources)]
    text += [f"`{x.case.name}` with {_settings(x)}." for x in done if x.case.settings]
    notes = dict.fromkeys(x.note for x in done if x.note)
    text += [f"{', '.join(f'`{x.case.name}`' for x in done if x.note == note)}: {note}." for note in notes]
    text += [
        f"`{x.case.name}`, seed {result['seed']}: {result['stopped'].rstrip('.')}."
        for x in done
        for result in x.results
        if result["stopped"]
    ]
    text += [f"`{x.case.name}` could not be run: {x.failed.rstrip('.')}." for x in lines if x.failed]
    return [*_paragraphs(text), ""]


def _about(name: str, result: dict[str, Any]) -> list[str]:
    rule, controls = protocol(name), result["controls"]
    popularity, counter = controls["popularity"], controls["counter"]
    verdict = (
        "**this protocol leaks the test item into training**" if counter["leaks"] else "no leak is found"
    )
    area = "-" if counter["auc"] is None else f"{100 * counter['auc']:.1f}"
    return [
        f"{result['users']:,} users, {result['items']:,} items; training negatives from "
        f"{rule.negatives_from} items; selected on validation {rule.select_on}. Controls (seed "
        f"{result['seed']}): popularity {_percent(popularity['hr@10'])} / {_percent(popularity['ndcg@10'])}; "
        f"the negative counter, without any model, AUC {area} (chance 50): {verdict}."
    ]


def _table(lines: Sequence[Line], reference: str) -> list[str]:
    base = next((x for x in lines if x.case.name == reference), None)
    others = [x for x in lines if base and x is not base]
    tests = [_paired_over_common_seeds(x, base) for x in others] if base else []
    differences = {
        x.case.name: f"{100 * test.difference:+.2f}{'*' if p < CERTAIN else ''}"
        for x, test, p in zip(others, tests, holm([test.p for test in tests]), strict=True)
    }
    heading = ["method", "HR@10", "NDCG@10", f"− {reference}", "full HR@10", "full NDCG@10"]
    heading += ["published HR@10", "published NDCG@10", "round", "seeds"]
    rows = [heading, ["---", *["---:"] * (len(heading) - 1)]]
    for x in lines:
        found = _published(x)
        rows.append(
            [
                f"`{x.case.name}`",
                *(_spread(x, metric) for metric in ("hr@10", "ndcg@10")),
                differences.get(x.case.name, "-"),
                *(_spread(x, metric, full=True) for metric in ("hr@10", "ndcg@10")),
                _printed(found.hr, found.hr_std) if found else "-",
                _printed(found.ndcg, found.ndcg_std) if found else "-",
                _rounds(x),
                str(len(x.results)),
            ]
        )
    return ["\n".join(f"| {' | '.join(row)} |" for row in rows)]


def _paired_over_common_seeds(x: Line, base: Line) -> Paired:
    seeds = min(len(x.results), len(base.results))
    return paired(x.first(seeds), base.first(seeds))


def _published(x: Line) -> Any:
    """Figures of the paper stand beside the paper's settings only, not beside variants."""
    return None if x.case.label else published(x.case.method, x.case.data_name, x.case.protocol)


def _settings(x: Line) -> str:
    return ", ".join(f"`{name}` {value}" for name, value in x.case.settings.items())


def _rounds(x: Line) -> str:
    """The selected round, or the range of it over seeds."""
    chosen = [result["selected_round"] for result in x.results]
    if None in chosen:
        return "-"
    return f"{min(chosen)}-{max(chosen)}" if min(chosen) < max(chosen) else str(chosen[0])


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"


def _spread(x: Line, name: str, full: bool = False) -> str:
    std = x.std(name, full)
    return _percent(x.mean(name, full)) + ("" if std is None else f" ± {_percent(std)}")


def _printed(value: float, std: float | None) -> str:
    return f"{value:.2f}" + ("" if std is None else f" ± {std:.2f}")


def _paragraphs(text: Sequence[str]) -> list[str]:
    """One empty line between paragraphs."""
    return [line for part in text if part for line in (part, "")]
