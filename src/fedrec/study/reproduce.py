"""A table or figure of a paper, reproduced: published beside measured beside ``strict``, differences marked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec.core.errors import FedrecError
from fedrec.core.files import write
from fedrec.core.pages import check_page, put
from fedrec.runs import border
from fedrec.runs.folder import make_folder, writing
from fedrec.study.case import UNFINISHED, Line, run_seconds
from fedrec.study.compare import Changed, Comparison, compare_cases
from fedrec.study.formats import lasted, pipes, printed, spread
from fedrec.study.ledger import Ledger
from fedrec.study.looks import Look, drawn
from fedrec.study.published import Published
from fedrec.study.table import Figure
from fedrec.study.targets import LONGEST, Target, target

if TYPE_CHECKING:
    import polars as pl

OUT = Path("runs/reproduce")
NOISE = 2.0  # differences beyond so many standard deviations are marked
LEAST = 1.0  # and beyond so many points


@dataclass(frozen=True)
class Reproduction:
    """What was measured beside what was published."""

    target: Target
    quick: bool
    comparison: Comparison
    looks: dict[str, Look]
    unseen: str  # why there are numbers without figures, or not even these

    @property
    def rows(self) -> list[list[str]]:
        """A heading, and a row for each method on each data set."""
        heading = ["data", "method", "published", "measured, `paper`", "differs by", "`strict`", "seeds"]
        found: dict[tuple[str, str], dict[str, Line]] = {}
        for line in self.comparison.lines:
            found.setdefault((line.case.data_name, line.case.name), {})[line.case.protocol_name] = line
        rows = [heading]
        for (data, name), by in found.items():
            paper, strict = by.get("paper"), by.get("strict")
            known = next((k for x in (paper, strict) if x and (k := self.target.published(x.case))), None)
            like = paper if paper is not None else strict  # which of the two the paper's protocol is
            assert like is not None
            seeds = " / ".join(dict.fromkeys(str(len(x.results)) for x in (paper, strict) if x))
            cells = [data, f"`{name}`", " / ".join(printed(known)) if known else "-"]
            cells += [_figures(paper), _differs(known, like), _figures(strict), seeds]
            rows.append(cells)
        return rows

    @property
    def sources(self) -> list[str]:
        """Where the published figures stand: a method's may be another paper's."""
        found = [
            known.source for line in self.comparison.lines if (known := self.target.published(line.case))
        ]
        return list(dict.fromkeys(found))

    @property
    def left_out(self) -> list[str]:
        """What the rows lack, and why."""
        lines = self.comparison.lines
        found = [
            f"{line.case.name} on {line.case.data_name}, {line.case.protocol_name}: {line.failed}"
            for line in lines
            if line.failed and line.failed != UNFINISHED
        ]
        rest = sum(line.failed == UNFINISHED for line in lines)
        return [*found, f"{rest} of the {len(lines)} figures are {UNFINISHED}"] if rest else found

    @property
    def seconds(self) -> float:
        """All rounds of all runs together."""
        return sum(run_seconds(result) or 0.0 for line in self.comparison.lines for result in line.results)

    def to_markdown(self) -> str:
        aim = self.target
        versions: dict[str, str] = next(
            (line.results[0]["versions"] for line in self.comparison.lines if line.results), {}
        )
        made = ", ".join(f"{name} {number}" for name, number in versions.items())
        text = [f"## {aim.title}", "", f"Target `{aim.name}`{', quick' if self.quick else ''}; {aim.source}."]
        text += [
            "",
            "HR@10 / NDCG@10 in percent, mean ± standard deviation over seeds, of the round selected on validation. "
            "`paper` repeats the published protocol, whose test items leak into training; `strict` does not leak, "
            "with the papers' settings too. "
            f"**Bold** differences are beyond {NOISE:g} standard deviations, where a spread is known, and {LEAST:g} "
            "point.",
            "",
            *pipes(self.rows),
        ]
        text += [part for source in self.sources for part in ("", f"Published: {source}.")]
        if aim.note:
            text += ["", aim.note]
        for name, summary in self.summaries().items():
            text += ["", f"### {name}", "", *pipes(_cells(summary))]
        text += [part for sentence in self.left_out for part in ("", f"{sentence}.")]
        if self.unseen:
            text += ["", f"Not drawn: {self.unseen}."]
        text += [
            "",
            f"Made on {date.today()} with {made}; its runs took {lasted(self.seconds)} in all.",
        ]
        return "\n".join(text) + "\n"

    def summaries(self) -> dict[str, pl.DataFrame]:
        """What the figures say, by kind."""
        import polars as pl

        kinds: dict[str, list[pl.DataFrame]] = {}
        for name, look in self.looks.items():
            kinds.setdefault(name.partition("-")[0], []).append(look.summary)
        return {kind: pl.concat(frames, how="vertical_relaxed") for kind, frames in kinds.items()}


def reproduce(
    name: str,
    quick: bool = False,
    *,
    out: str | Path = OUT,
    page: str | Path | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    only_finished: bool = False,
    ledger: str | Path | None = None,
    changed: Changed = lambda board, said: None,
) -> Reproduction:
    """Make the runs that are missing, and lay them beside what was published; all is written to ``out``.

    ``quick``: one seed, ML-100K, and no run that takes more than three minutes. ``only_finished``: none is made, the
    rows have the seeds that are there. ``ledger``: a file with the figures of finished runs, which are not made again;
    those that are made are added.
    """
    aim, folder = target(name), border.path_of("out", out)
    page = None if page is None else border.path_of("page", page)
    if page is not None:
        check_page(page, aim.name)
    if ledger is not None and (aim.look is not None or aim.models):
        raise FedrecError(f"{aim.name} looks at the runs themselves: --ledger is for tables, leave it out")
    comparison = compare_cases(
        aim.cases(quick), folder, 1 if quick else aim.seeds, jobs=jobs, threads=threads,
        longest=LONGEST if quick else None, keep_models=aim.models,
        only_finished=only_finished, changed=changed, tables=False,
        ledger=None if ledger is None else Ledger(border.path_of("ledger", ledger)),
    )  # fmt: skip
    looks: dict[str, Look] = {}
    unseen = ""
    done = [line for line in comparison.lines if line.results]
    if aim.look is not None:
        try:
            looks = aim.look(done)
        except FedrecError as error:
            unseen = str(error)
    make_folder(folder)
    stem = f"{aim.name}{'-quick' if quick else ''}"
    with writing(folder):
        for look_name, look in looks.items():
            write(folder / f"{stem}-{look_name}.csv", look.numbers.write_csv())
            unseen = drawn(look, folder / f"{stem}-{look_name}.svg") or unseen
        found = Reproduction(aim, quick, comparison, looks, unseen.rstrip("."))
        write(folder / f"{stem}.md", found.to_markdown())
        write(folder / f"{stem}.csv", comparison.frame.write_csv())
    if page is not None:
        with writing(page.parent):
            put(page, aim.name, found.to_markdown())
    return found


def _figures(line: Line | None) -> str:
    if line is None or not line.results:
        return "-"
    return " / ".join(spread(Figure(line.mean(name), line.std(name)), 2) for name in ("hr@10", "ndcg@10"))


def _differs(known: Published | None, line: Line) -> str:
    """Measured minus published, in points; bold where that is more than noise."""
    if known is None or not line.results:
        return "-"
    cells = []
    pairs = (("hr@10", known.hr, known.hr_std), ("ndcg@10", known.ndcg, known.ndcg_std))
    for name, value, std in pairs:
        mine = line.std(name)
        spreads = [std or 0.0, (std or 0.0) if mine is None else 100 * mine]
        points = 100 * line.mean(name) - value
        text, noise = f"{points:+.2f}", NOISE * math.hypot(*spreads)
        cells.append(f"**{text}**" if noise and abs(points) > max(LEAST, noise) else text)
    return " / ".join(cells)


def _cells(frame: Any) -> list[list[str]]:
    rows = [
        [f"{value:.2f}" if isinstance(value, float) else str(value) for value in row] for row in frame.rows()
    ]
    return [list(frame.columns), *rows]
