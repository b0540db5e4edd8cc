"""Comparisons: any methods × data sets × protocols × seeds, as one table with paired tests and controls.

Every run is a folder, named after everything that decides it: what is finished is read, what was
interrupted goes on, and only what is missing is trained.

    comparison = fedrec.compare(["fedmf", "pfedrec"], "ml-100k", seeds=3)
    comparison.frame, print(comparison.to_markdown()), comparison.to_latex()
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedrec.core.errors import FedrecError, Interrupted, nearest
from fedrec.core.files import write
from fedrec.core.pages import check_page, put
from fedrec.core.protocol import Protocol
from fedrec.data.interactions import Interactions
from fedrec.runs import border
from fedrec.runs.folder import RunFolder, make_folder, writing
from fedrec.study import formats
from fedrec.study.board import Board, Job
from fedrec.study.case import UNFINISHED, Case, Line, finished, place, read_failure
from fedrec.study.grid import check, numbers, product, read_grid
from fedrec.study.ledger import Ledger
from fedrec.study.paired import holm, paired
from fedrec.study.play import TooLong, refuse_too_long
from fedrec.study.players import how_many, play_all
from fedrec.study.table import Section, sections

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Case", "Comparison", "Line", "compare", "compare_cases", "holm", "open_comparison", "paired"]

OUT = Path("runs/compare")
ABOUT = "comparison.json"
Changed = Callable[[Board, str], None]


@dataclass
class Comparison:
    """Finished runs side by side."""

    lines: list[Line]
    baselines: tuple[str, ...] = ()  # what the others are tested against
    folder: Path | None = None
    played: int = 0  # runs that had to be made

    @cached_property
    def sections(self) -> list[Section]:
        """A table for each data set and protocol."""
        return sections(self.lines, self.baselines)

    @property
    def frame(self) -> pl.DataFrame:
        """One row a line: means and spreads as fractions, differences, seconds, bytes."""
        return formats.frame(self.sections)

    @property
    def table(self) -> list[Any]:
        """Tables for a terminal, by rich."""
        return [formats.terminal(section) for section in self.sections if section.rows]

    def to_markdown(self, title: str | None = "Comparison") -> str:
        return formats.markdown(self.sections, title)

    def to_latex(self) -> str:
        return formats.latex(self.sections)

    def _repr_html_(self) -> str:
        return formats.html(self.sections)

    def __repr__(self) -> str:
        runs = sum(len(line.results) for line in self.lines)
        return (
            f"Comparison({len(self.lines)} lines, {runs} runs{f' in {self.folder}' if self.folder else ''})"
        )

    def write(self, folder: Path) -> list[Path]:
        """The tables as CSV, Markdown and LaTeX, and what they were made from as JSON."""
        texts = {
            "comparison.csv": self.frame.write_csv(),
            "comparison.md": self.to_markdown(),
            "comparison.tex": self.to_latex(),
            ABOUT: json.dumps(_described(self), indent=1) + "\n",
        }
        for name, text in texts.items():
            write(folder / name, text)
        return [folder / name for name in texts if name != ABOUT]


def compare(
    methods: str | Sequence[str] = (),
    data: Any = "demo",
    protocol: str | Protocol | Sequence[str | Protocol] = "strict",
    seeds: int | Sequence[int] = 5,
    *,
    settings: Mapping[str, Any] | None = None,
    preset: str | None = None,
    local: bool = False,
    baseline: str | Sequence[str] | None = None,
    grid: str | Path | None = None,
    rounds: int | None = None,
    clients: float | int | None = None,
    channel: Sequence[str] | None = None,
    epsilon: float | None = None,
    eval_every: int | None = None,
    patience: int | None = None,
    out: str | Path = OUT,
    jobs: int | None = None,
    threads: int | None = None,
    longest: float | None = None,
    keep_models: bool = False,
    only_finished: bool = False,
    force: bool = False,
    ledger: str | Path | None = None,
    page: str | Path | None = None,
    changed: Changed = lambda board, said: None,
) -> Comparison:
    """Run what is missing of methods × data × protocols × seeds, and lay the results side by side.

    ``settings`` may name their method: ``{"fedmf.dim": 16}``; others go to every method that has them, as do
    options of ``fedrec.run``. ``protocol="both"`` is strict and paper. ``local`` adds the controls that are never
    aggregated. ``baseline``, by default the first method, is what differences are tested against; it may be several.
    ``grid`` is a TOML file that says all of this. ``jobs`` runs are made at a time, by default
    one a core where memory allows.
    ``longest``: a run that would take more seconds than this is left out, and the table says so.
    ``only_finished``: nothing is run, what is finished is laid side by side.
    ``ledger``: a file of figures; what it has is not run again, what is run is added.
    ``page``: a Markdown file that gets the tables as a section, between two marks with the name of the folder.
    """
    place = None if page is None else border.path_of("page", page)
    mark = f"compare {border.path_of('out', out).name}"
    if place is not None:
        check_page(place, mark)
    if grid is not None:
        said, cases = read_grid(grid)
        seeds, baseline = said.seeds, baseline or said.baseline
    else:
        options = {"rounds": rounds, "clients": clients, "channel": channel, "epsilon": epsilon}
        options |= {"eval_every": eval_every, "patience": patience, "preset": preset}
        settings = border.settings_of(settings)
        cases = product(border.several(methods), _several(data), protocol, settings, options, local)
    found = compare_cases(
        cases, out, seeds, baseline=baseline, jobs=jobs, threads=threads, longest=longest,
        keep_models=keep_models, only_finished=only_finished, force=force, changed=changed,
        ledger=None if ledger is None else Ledger(border.path_of("ledger", ledger)),
    )  # fmt: skip
    if place is not None:
        with writing(place.parent):
            put(place, mark, found.to_markdown(None))
    return found


def compare_cases(
    cases: Sequence[Case],
    out: str | Path = OUT,
    seeds: int | Sequence[int] = 5,
    *,
    baseline: str | Sequence[str] | None = None,
    jobs: int | None = None,
    threads: int | None = None,
    longest: float | None = None,
    keep_models: bool = False,
    only_finished: bool = False,
    force: bool = False,
    changed: Changed = lambda board, said: None,
    tables: bool = True,
    ledger: Ledger | None = None,
) -> Comparison:
    """The same for cases of one's own. A mistake is an error before anything runs; with ``tables`` they are written.

    Runs that a ``ledger`` tells of are not made; those that are made are noted there as they end.
    """
    folder, chosen = border.path_of("out", out), numbers(seeds)
    longest = None if longest is None else border.seconds("--longest", longest, "")
    check(cases, chosen)
    baselines = _baselines(cases, baseline)
    if tables:
        _refuse_another(folder, cases, force)
    wanted = _jobs(cases, folder, chosen)
    missing = (
        [] if only_finished else [job for job in wanted if not _settled(job, keep_models, longest, ledger)]
    )

    def noted(board: Board, said: str) -> None:
        if ledger is not None:
            ledger.note(board.took)
        changed(board, said)

    board = Board(missing, how_many(jobs, len(missing)), changed=noted)
    if missing or (tables and not only_finished):
        make_folder(folder)
    try:
        play_all(board, threads=threads, keep_models=keep_models, longest=longest)
    except KeyboardInterrupt:
        left = len(missing) - board.done
        raise Interrupted(
            f"the same command: {len(wanted) - left} of {len(wanted)} runs are finished"
        ) from None
    if ledger is not None:
        ledger.note(wanted)
    lines = [
        _line(case, [job for job in wanted if job.case is case], board, longest, ledger) for case in cases
    ]
    if only_finished and not any(line.results for line in lines):
        raise FedrecError(f"{folder} has no finished run of this comparison: run it first")
    comparison = Comparison(lines, baselines, folder, len(board.took))
    if tables:
        make_folder(folder)  # which there need not be where a ledger tells it all
        with writing(folder):
            comparison.write(folder)
    return comparison


def open_comparison(folder: str | Path) -> Comparison:
    """A comparison that was written to a folder, with nothing trained and no data loaded."""
    folder = border.path_of("folder", folder)
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        lines = [_read_line(folder, each) for each in about["lines"]]
        return Comparison(lines, tuple(about["baselines"]), folder)
    except FileNotFoundError:
        raise FedrecError(f"{folder} holds no comparison: fedrec compare --out {folder} makes one") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise FedrecError(f"{folder / ABOUT} is damaged: the same fedrec compare writes it anew") from None


def _jobs(cases: Sequence[Case], folder: Path, seeds: Sequence[int]) -> list[Job]:
    """First seeds first: every method is seen early."""
    found = [
        (at, Job(case, seed, place(case, folder, seed)))
        for case in cases
        for at, seed in enumerate(case.seeds or seeds)
    ]
    return [job for _, job in sorted(found, key=lambda pair: pair[0])]


def _settled(job: Job, models: bool, longest: float | None, ledger: Ledger | None) -> bool:
    """Nothing is to be done: it is finished, here or elsewhere, or known to take too long."""
    told = ledger is not None and not models and ledger.result(job) is not None  # which has figures alone
    if told or finished(job.path, models) is not None:
        return True
    try:
        refuse_too_long(job.path, longest)
    except TooLong:
        return True
    return False


def _line(
    case: Case, jobs: Sequence[Job], board: Board, longest: float | None, ledger: Ledger | None
) -> Line:
    results, folders, failed = [], [], ""
    for job in jobs:
        result = finished(job.path) or (ledger.result(job) if ledger is not None else None)
        if result is not None and job not in board.failed:
            results.append(result)
            folders.append(job.path)
            continue
        try:
            refuse_too_long(job.path, longest)
        except TooLong as error:
            failed = failed or str(error)
        failed = failed or board.failed.get(job) or str(read_failure(job.path).get("error", ""))
    if not results:
        failed = failed or UNFINISHED
    note = f"{len(results)} of {len(jobs)} seeds" if results and len(results) < len(jobs) else ""
    return Line(case, results, folders, failed, note)


def _baselines(cases: Sequence[Case], asked: str | Sequence[str] | None) -> tuple[str, ...]:
    names = list(dict.fromkeys(case.name for case in cases))
    if not asked:
        return tuple(names[:1]) if len(names) > 1 else ()
    found = tuple(dict.fromkeys(border.several(asked)))
    for name in found:
        if name not in names:
            raise FedrecError(
                f"the baseline '{name}' is not among the methods compared: {nearest(name, names)}"
            )
    return found


def _several(data: Any) -> list[str | Path | Interactions]:
    if isinstance(data, str | Path | Interactions):
        return [data]
    found = list(data)
    if not found:
        raise FedrecError("say which data to compare on, such as demo: fedrec data list lists them")
    return found


def _identity(case: Case) -> list[Any]:
    return [case.name, case.data_name, case.protocol_name]


def _refuse_another(folder: Path, cases: Sequence[Case], force: bool) -> None:
    """Tables of another comparison are not written over; one that has all its lines and more may be."""
    if force or not (folder / ABOUT).exists():
        return
    try:
        there = [each["line"] for each in json.loads((folder / ABOUT).read_text(encoding="utf-8"))["lines"]]
    except (ValueError, KeyError, TypeError):
        there = []
    asked = [_identity(case) for case in cases]
    lost = [name for name in there if name not in asked]
    if lost:
        raise FedrecError(
            f"{folder} holds a comparison with {lost[0][0]} on {lost[0][1]}, which this one has not: choose another "
            "--out, or write its tables anew with --force (its runs are kept)"
        )


def _described(comparison: Comparison) -> dict[str, Any]:
    lines = []
    for line in comparison.lines:
        case, runs = line.case, [path.name for path in line.folders]
        how = case.protocol.model_dump(mode="json") if isinstance(case.protocol, Protocol) else case.protocol
        facts = {"line": _identity(case), "method": case.method, "protocol": how, "settings": case.settings}
        facts |= {"options": case.options, "label": case.label, "runs": runs}
        told = [result if "nearly" in result else None for result in line.results]  # by a ledger
        lines.append({**facts, "told": told, "failed": line.failed, "note": line.note})
    return {"baselines": comparison.baselines, "lines": lines}


def _read_line(folder: Path, told: dict[str, Any]) -> Line:
    paths = [folder / name for name in told["runs"]]
    by_ledger = told.get("told") or [None] * len(paths)
    results = [
        found
        for path, known in zip(paths, by_ledger, strict=True)
        if (found := known or RunFolder.existing(path).result()) is not None
    ]
    how = told["protocol"] if isinstance(told["protocol"], str) else Protocol(**told["protocol"])
    case = Case(told["method"], told["line"][1], how, told["settings"], told["options"], told["label"])
    return Line(case, results, paths, told["failed"], told["note"])
