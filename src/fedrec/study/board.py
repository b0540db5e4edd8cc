"""What a comparison is doing: runs that are done, playing and left, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedrec.study.case import Case


@dataclass(frozen=True, eq=False)
class Job:
    """One run of a comparison: a case with a seed, and its folder."""

    case: Case
    seed: int
    path: Path

    @property
    def name(self) -> str:
        return f"{self.case.name} on {self.case.data_name}, {self.case.protocol_name}, seed {self.seed}"


@dataclass
class Playing:
    """A run that is being played."""

    job: Job
    since: float
    first: int = 0  # the round it began at, where it goes on
    round: int = 0
    rounds: int = 0


@dataclass
class Board:
    """Kept by whoever plays; ``changed`` is called after every change, to show it."""

    jobs: list[Job]
    parallel: int = 1
    clock: Callable[[], float] = time.monotonic
    changed: Callable[[Board, str], None] = lambda board, said: None
    playing: dict[Job, Playing] = field(default_factory=dict)
    took: dict[Job, float] = field(default_factory=dict)
    failed: dict[Job, str] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return len(self.took) + len(self.failed)

    @property
    def left(self) -> list[Job]:
        """Not begun so far."""
        ended = (self.playing, self.took, self.failed)
        return [job for job in self.jobs if not any(job in group for group in ended)]

    def begin(self, job: Job) -> None:
        self.playing[job] = Playing(job, self.clock())
        self.changed(self, f"{job.name}: begins")

    def at(self, job: Job, round: int, rounds: int) -> None:
        now = self.playing[job]
        now.first = now.first or round
        now.round, now.rounds = round, rounds
        self.changed(self, "")

    def end(self, job: Job, sentence: str = "") -> None:
        """A run is finished, or could not be: then a sentence says why."""
        seconds = self.clock() - self.playing.pop(job).since
        if sentence:
            self.failed[job] = sentence
        else:
            self.took[job] = seconds
        self.changed(self, f"{job.name}: {sentence or f'{seconds:.0f} s'}")

    def put_back(self, job: Job) -> None:
        """Another process has it: try again later."""
        del self.playing[job]

    def remaining(self) -> float | None:
        """Seconds until all is done, judged by runs alike; None while nothing is known."""
        now = self.clock()
        rest = [self._rest(playing, now) for playing in self.playing.values()]
        rest += [self._expected(job) for job in self.left]
        if not rest:
            return 0.0
        known = [seconds for seconds in rest if seconds is not None]
        if not known or len(known) < len(rest) / 2:
            return None
        usual = sum(known) / len(known)
        return sum(usual if seconds is None else seconds for seconds in rest) / max(self.parallel, 1)

    def _rest(self, playing: Playing, now: float) -> float | None:
        """Of a run that is being played: by its rounds, else by others like it."""
        spent, played = now - playing.since, playing.round - playing.first + 1
        if playing.rounds and played > 0 and playing.round:
            return spent / played * (playing.rounds - playing.round)
        expected = self._expected(playing.job)
        return None if expected is None else max(expected - spent, 0.0)

    def _expected(self, job: Job) -> float | None:
        """By other seeds of the same case, else by the same method and data, else by the same data."""
        likeness: list[Callable[[Case], object]] = [
            lambda case: (case.name, case.data_name, case.protocol_name),
            lambda case: (case.method, case.data_name),
            lambda case: case.data_name,
        ]
        for like in likeness:
            found = [took for other, took in self.took.items() if like(other.case) == like(job.case)]
            if found:
                return sum(found) / len(found)
        return None
