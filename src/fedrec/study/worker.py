"""A process that plays one run of a comparison: it reads what to play on stdin and says on stdout how it goes.

It ends when whoever began it is gone, with a checkpoint: nobody else holds its folder then.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.core.freed import keep_freed_memory
from fedrec.core.protocol import Protocol
from fedrec.data.interactions import Interactions
from fedrec.data.kept import keep, read_kept
from fedrec.runs.folder import Locked, writing
from fedrec.study.board import Job
from fedrec.study.case import Case, loaded_once
from fedrec.study.play import play
from fedrec.study.processes import end_with_parent


def packed(job: Job, **how: Any) -> str:
    """A job as one line of JSON. Data that were given in Python are kept beside the runs, to be read again."""
    case, data = job.case, loaded_once(job.case.data)
    if data.origin is None:
        config = case.described(job.seed).config
        copy = job.path.parent / f"data-{config.fingerprint}.parquet"
        if not copy.exists():
            with writing(copy.parent):
                keep(data, copy)
        source: dict[str, Any] = {"copy": str(copy), "name": data.name}
    else:
        source = {"source": data.origin.source, "load": dict(data.origin.options)}
    protocol = case.protocol if isinstance(case.protocol, str) else case.protocol.model_dump(mode="json")
    facts = {"method": case.method, "settings": case.settings, "options": case.options, "label": case.label}
    return json.dumps(
        {**facts, "data": source, "protocol": protocol, "seed": job.seed, "path": str(job.path), "how": how}
    )


def unpacked(line: str) -> tuple[Job, dict[str, Any]]:
    told = json.loads(line)
    protocol = told["protocol"] if isinstance(told["protocol"], str) else Protocol(**told["protocol"])
    case = Case(
        told["method"], _data(told["data"]), protocol, told["settings"], told["options"], told["label"]
    )
    return Job(case, told["seed"], Path(told["path"])), told["how"]


def _data(told: dict[str, Any]) -> Interactions:
    import fedrec

    if "copy" in told:
        return read_kept(Path(told["copy"]), told["name"])
    return fedrec.load(told["source"], **told["load"])


def say(**event: Any) -> None:
    try:
        print(json.dumps(event), flush=True)
    except BrokenPipeError:
        raise KeyboardInterrupt from None  # nobody listens: stop as if told so


def main() -> None:
    keep_freed_memory()
    line = sys.stdin.readline()
    end_with_parent()
    try:
        job, how = unpacked(line)
        play(job, at=lambda round, rounds: say(at=[round, rounds]), **how)
    except KeyboardInterrupt:
        os._exit(130)
    except Locked:
        say(locked=True)
    except FedrecError as error:
        say(failed=str(error))
    else:
        say(done=True)
    sys.stdout.flush()
    os._exit(0)  # the thread that waits on stdin would hold it up


if __name__ == "__main__":
    main()
