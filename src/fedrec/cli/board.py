"""One display for many runs: what is playing, done and left, and how long it will take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fedrec.cli.terminal import complain, console

if TYPE_CHECKING:
    from fedrec.study.board import Board

BAR, SAID = 16, 23  # letters


@contextmanager
def display() -> Iterator[Callable[[Board, str], None]]:
    """Bars on stderr where a person looks on; elsewhere a line for every run that ends."""
    shown = console(stderr=True)
    if not shown.is_terminal:
        yield _lines
        return
    from rich.live import Live

    with Live(console=shown, transient=True, refresh_per_second=4) as live:
        yield lambda board, said: live.update(_picture(board))


def _lines(board: Board, said: str) -> None:
    if said and not said.endswith(": begins"):
        complain(f"{board.done} of {len(board.jobs)}, {left(board.remaining())}: {said}")


def left(seconds: float | None) -> str:
    """A time for people."""
    if seconds is None:
        return "time left not known yet"
    if seconds == 0:
        return "all done"
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"


def _picture(board: Board) -> Any:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_column(width=BAR)
    table.add_column(no_wrap=True, min_width=SAID)
    failed = f", {len(board.failed)} failed" if board.failed else ""
    table.add_row(
        f"{board.done} of {len(board.jobs)} runs done{failed}",
        ProgressBar(len(board.jobs), board.done, width=BAR),
        left(board.remaining()),
    )
    for now in list(board.playing.values()):
        at = f"round {now.round} of {now.rounds}" if now.rounds else "preparing"
        bar = ProgressBar(now.rounds or None, now.round, width=BAR, pulse=not now.rounds)
        table.add_row(f"  {now.job.name}", bar, at)
    return table
