"""Plays runs and is killed in the middle of them: a process per scene, forked when all is compiled.

Arguments: a folder, then scenes as ``name,kind,every,round,where``. Prints each scene's exit code.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import fedrec
from fedrec.data.worlds import scalable
from fedrec.simulate import checkpoint

KINDS: dict[str, dict[str, Any]] = {
    "everyone": {"method": "pfedrec+recent", "patience": 4},
    "sampled": {"method": "fedncf+dualper", "clients": 0.5, "channel": ["laplace=0.05"], "eval_every": 2},
}
ROUNDS = 6


def options(kind: str) -> dict[str, Any]:
    return {"data": scalable(60, 80, 1500), "rounds": ROUNDS, "settings": {"dim": 8}, **KINDS[kind]}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_file(file: Any, **arrays: Any) -> None:
    file.write(b"half")
    file.flush()
    die()


def all_but_the_pointer(path: Path, target: Path) -> None:
    if path.name.startswith("current"):
        die()
    os.replace(path, target)


def play(out: Path, kind: str, every: float, last: int, where: str) -> None:
    """A run that dies in round ``last``: after it, while its checkpoint is written, or before that counts."""

    def callback(record: Any, simulation: Any) -> None:
        if where == "ahead" and record.round == 2:  # the history will run ahead of this checkpoint
            checkpoint.save_checkpoint(out / "checkpoint", simulation.moment, simulation.selected)
        if record.round < last:
            return
        if where in ("round", "ahead"):
            die()
        elif where == "writing":
            checkpoint.np.savez = half_a_file  # type: ignore[assignment]
        elif where == "pointing":
            Path.replace = all_but_the_pointer  # type: ignore[assignment,method-assign]

    fedrec.run(**options(kind), out=out, checkpoint_every=every, threads=1, callbacks=[callback])


def main(folder: str, *scenes: str) -> None:
    for kind in {scene.split(",")[1] for scene in scenes}:  # import and compile once, for all children
        fedrec.run(**{**options(kind), "rounds": 1}, threads=1)
    for scene in scenes:
        name, kind, every, last, where = scene.split(",")
        child = os.fork()
        if child == 0:
            play(Path(folder) / name, kind, float(every), int(last), where)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(name, os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
