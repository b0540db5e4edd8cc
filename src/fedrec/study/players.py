"""Plays the runs of a comparison: here, one after the other, or in processes, as many as memory and cores allow."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

from fedrec.core.errors import FedrecError
from fedrec.runs import border
from fedrec.runs.folder import Locked
from fedrec.study.board import Board, Job
from fedrec.study.case import finished, loaded_once
from fedrec.study.play import play
from fedrec.study.processes import apart, close, environment, interrupt
from fedrec.study.worker import packed

AGAIN = 1.0  # seconds until a run that another process has is looked at again
BASE = 500 << 20  # bytes: Python with its libraries, as a first guess
PER_INTERACTION = 3 << 10  # bytes: what the largest method holds of a data set, as a first guess
MB = 1 << 20


def how_many(jobs: int | None, runs: int) -> int:
    """Runs at a time: as many as asked for, else one a core; never more than there are."""
    most = border.threads_or_all(None) if jobs is None else border.whole("jobs", jobs, 1)
    return max(1, min(most, runs))


def play_all(
    board: Board, *, threads: int | None = None, keep_models: bool = False, longest: float | None = None
) -> None:
    """Play all that the board has; what fails leaves its sentence there, and the others go on."""
    cores = border.threads_or_all(threads)
    how: dict[str, Any] = {"keep_models": keep_models, "longest": longest}
    if board.parallel > 1:
        Processes(board, cores, how).play()
    else:
        for job in board.jobs:
            _here(board, job, cores, how)


def _here(board: Board, job: Job, threads: int, how: dict[str, Any]) -> None:
    board.begin(job)
    while True:
        try:
            play(job, threads, at=lambda round, rounds: board.at(job, round, rounds), **how)
        except Locked:
            time.sleep(AGAIN)
            continue
        except FedrecError as error:
            board.end(job, str(error))
        else:
            board.end(job)
        return


class Processes:
    """A process for each run, so that none inherits another's memory; they end with this one."""

    def __init__(self, board: Board, cores: int, how: dict[str, Any]) -> None:
        self.board, self.cores, self.how = board, cores, how
        self.events: queue.Queue[tuple[Job, dict[str, Any]]] = queue.Queue()
        self.running: dict[Job, subprocess.Popen[str]] = {}
        self.errors: dict[Job, IO[str]] = {}
        self.not_before: dict[Job, float] = {}
        self.memory = available_memory()

    def play(self) -> None:
        try:
            while self.board.left or self.running:
                self._begin_some()
                try:
                    job, event = self.events.get(timeout=AGAIN)
                except queue.Empty:
                    self.board.changed(self.board, "")
                    continue
                self._heard(job, event)
        finally:
            self._stop()

    def _begin_some(self) -> None:
        now = time.monotonic()
        for job in self.board.left:
            if len(self.running) >= self.board.parallel:
                return
            if self.not_before.get(job, 0) <= now and self._fits(job):
                self._begin(job)

    def _fits(self, job: Job) -> bool:
        """Whether there is memory for it besides those that run; one may always run."""
        if not self.running or self.memory is None:
            return True
        return sum(needed_memory(other, self.board) for other in (job, *self.running)) <= self.memory

    def _begin(self, job: Job) -> None:
        together = min(self.board.parallel, len(self.running) + len(self.board.left))
        self.board.begin(job)
        line = packed(job, threads=max(1, self.cores // together), **self.how)
        errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (closed when the run has ended)
        process = subprocess.Popen(
            [sys.executable, "-m", "fedrec.study.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            text=True, encoding="utf-8", env=environment(), **apart(),
        )  # fmt: skip
        self.running[job], self.errors[job] = process, errors
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: its end is heard
            process.stdin.write(line + "\n")
            process.stdin.flush()
        threading.Thread(target=self._listen, args=(job, process), daemon=True).start()

    def _listen(self, job: Job, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                self.events.put((job, json.loads(line)))
        self.events.put((job, {"ended": process.wait()}))

    def _heard(self, job: Job, event: dict[str, Any]) -> None:
        if "at" in event:
            self.board.at(job, *event["at"])
        elif "locked" in event:
            self.not_before[job] = time.monotonic() + AGAIN
            self.board.put_back(job)
        elif "failed" in event:
            self.board.end(job, event["failed"])
        elif "done" in event:
            self.board.end(job)
        elif "ended" in event:
            self._ended(job, event["ended"])

    def _ended(self, job: Job, code: int) -> None:
        process, errors = self.running.pop(job), self.errors.pop(job)
        close(process)
        errors.seek(0)
        said = errors.read().strip()
        errors.close()
        if job not in self.board.playing:
            return
        if code < 0:  # a signal: most likely the system, for want of memory
            name = signal.Signals(-code).name
            self.board.end(job, f"its process was ended by {name}: with less memory in use, use fewer --jobs")
        else:
            raise RuntimeError(f"a bug in fedrec stopped {job.name}:\n{said}")

    def _stop(self) -> None:
        """Interrupted, or a bug: what still runs writes a checkpoint and ends."""
        for process in self.running.values():
            if process.poll() is None:
                interrupt(process)
        for process in self.running.values():
            process.wait()
            close(process)
        for errors in self.errors.values():
            errors.close()


def available_memory() -> int | None:
    """Bytes that can be used without swapping; None where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    found = [line.split()[1] for line in text.splitlines() if line.startswith("MemAvailable:")]
    return int(found[0]) << 10 if found else None


def needed_memory(job: Job, board: Board) -> int:
    """What a run will hold: as much as one alike did, else a guess by the size of the data."""
    alike = [
        j for j in board.took if (j.case.method, j.case.data_name) == (job.case.method, job.case.data_name)
    ]
    peaks = [r["peak_memory_mb"] for j in alike if (r := finished(j.path)) and r["peak_memory_mb"]]
    if peaks:
        return int(max(peaks) * MB)
    return BASE + PER_INTERACTION * len(loaded_once(job.case.data))
