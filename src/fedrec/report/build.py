"""From folders of runs to a page and files of figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedrec.core.errors import DataError, FedrecError
from fedrec.core.files import write
from fedrec.figures.theme import altair
from fedrec.report.drawn import figures_of
from fedrec.report.entries import baseline_of, read_entries
from fedrec.report.files import write_figures
from fedrec.report.groups import Group, groups_of
from fedrec.report.inside import inside_of
from fedrec.report.models import MOST, models_of
from fedrec.report.page import Part, page
from fedrec.report.people import data_for, people_of

Say = Callable[[str], None]


@dataclass(frozen=True)
class Report:
    """What was written, and what was left out of it, in sentences."""

    path: Path
    parts: list[Part]
    left_out: list[str]
    files: list[Path]


def report(
    runs: str | Path | Sequence[str | Path],
    out: str | Path = "report.html",
    *,
    baseline: str | None = None,
    models: int = MOST,
    figures: str | Path | None = None,
    title: str | None = None,
    force: bool = False,
    say: Say = lambda text: None,
) -> Report:
    """Write a page about runs: folders of runs, or folders that hold some, such as a comparison's.

    ``models``: of how many methods (of a data set and protocol) the model itself is looked into; 0: of none.
    ``figures``: also write each chart into this folder, for a paper.
    """
    altair()  # missing, it is said before anything is read
    out, given = Path(out), [Path(p) for p in ([runs] if isinstance(runs, str | Path) else runs)]
    folder = Path(figures) if figures is not None else None
    if models < 0:
        raise FedrecError(f"models={models} makes no sense: give how many are looked into, 0 for none")
    _refuse_to_overwrite(out, folder, force)
    say("reading runs")
    entries, left = read_entries(given)
    groups = groups_of(entries, baseline, baseline_of(given))
    parts = [part_of(group, models, say) for group in groups]
    left = [sentence.rstrip(".") for sentence in left]
    say("writing")
    text = page(parts, title or _title(groups), left)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write(out, text)
        written = write_figures(parts, folder, say) if folder else []
    except OSError as error:
        raise FedrecError(
            f"cannot write {error.filename or out}: {error.strerror}; choose another place"
        ) from None
    return Report(out, parts, left, written)


def part_of(group: Group, models: int = MOST, say: Say = lambda text: None) -> Part:
    """A group with all figures that can be had of it."""
    people = data = None
    try:
        say(f"users of {group.data}")
        data = data_for(group)
        people = people_of(group, data)
    except DataError as error:
        group.notes.append(f"Figures by activity, by popularity and of models need the data: {error}.")
    figures = list(figures_of(group, people))
    if data is not None and models:
        found = models_of(group, data, models, say)
        figures += inside_of(group, found)
        group.notes += found.notes
    return Part(group, figures)


def _title(groups: Sequence[Group]) -> str:
    methods = list(dict.fromkeys(case.label for group in groups for case in group.cases))
    data = ", ".join(dict.fromkeys(group.data for group in groups))
    return f"{methods[0]} on {data}" if len(methods) == 1 else f"{len(methods)} methods on {data}"


def _refuse_to_overwrite(out: Path, folder: Path | None, force: bool) -> None:
    if out.is_dir():
        raise FedrecError(f"{out} is a folder: name a file, such as {out / 'report.html'}")
    if not force:
        if out.exists():
            raise FedrecError(f"{out} exists already: choose another -o, or overwrite it with --force")
        if folder is not None and folder.exists() and any(folder.iterdir()):
            raise FedrecError(
                f"{folder} is not empty: choose another --figures, or write into it with --force"
            )
