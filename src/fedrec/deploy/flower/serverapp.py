"""Flower's ServerApp: rounds over Flower's messages, in a folder that it can go on from."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedrec.core.errors import FedrecError
from fedrec.core.files import write
from fedrec.deploy.flower import FIELD, RECORD
from fedrec.deploy.rounds import Rounds
from fedrec.deploy.state import Folder

app = ServerApp()
LOOK = 0.2  # seconds between two looks for answers
MARKER = "run.json"  # what became of a run: Flower's own word for it is not to be trusted


class Messages:
    """Carries questions by Flower's messages. A node that does not answer in time is not waited for."""

    def __init__(self, grid: Grid, seconds: float) -> None:
        self.grid, self.seconds = grid, seconds

    def nodes(self) -> list[int]:
        return sorted(self.grid.get_node_ids())

    def ask(self, questions: Mapping[int, bytes]) -> dict[int, bytes]:
        sent = [
            Message(
                content=RecordDict({RECORD: ConfigRecord({FIELD: data})}),
                dst_node_id=node,
                message_type="query",
                ttl=self.seconds + 60,
            )
            for node, data in questions.items()
        ]
        waiting, answers, until = set(self.grid.push_messages(sent)), {}, time.monotonic() + self.seconds
        while waiting and time.monotonic() < until:
            for reply in self.grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                if reply.has_content() and isinstance(record := reply.content.get(RECORD), ConfigRecord):
                    data = record.get(FIELD)
                    if isinstance(data, bytes):
                        answers[reply.metadata.src_node_id] = data
            if waiting:
                time.sleep(LOOK)
        return answers


@app.main()
def main(grid: Grid, context: Context) -> None:
    config: Mapping[str, Any] = context.run_config
    place, last = Path(str(config["folder"])), int(config["rounds"])
    seconds, wait = float(config["seconds"]), float(config["wait"])
    folder = None
    try:
        folder = Folder(place)
        folder.claim()
        tell(place, state="running")
        rounds = Rounds(folder, Messages(grid, seconds), clients_of(str(config["clients"])))
        _gather(rounds, int(config["devices"]), wait)
        while rounds.server.state.round < last:
            tell(place, state="running", round=rounds.play().round)
        rounds.score()
        tell(place, state="done", round=rounds.server.state.round)
    except Exception as error:
        if (
            folder is None or folder.mine()
        ):  # one that was cut off from its SuperLink has nothing to say any more
            why = str(error) if isinstance(error, FedrecError) else f"{type(error).__name__}: {error}"
            tell(place, state="failed", why=why, trace=traceback.format_exc())
        raise


def _gather(rounds: Rounds, devices: int, wait: float) -> None:
    """Waits for so many devices, for a while: rounds go on with those that are there."""
    until = time.monotonic() + wait
    rounds.hello()
    while len(rounds.at) < devices and time.monotonic() < until:
        time.sleep(0.5)
        rounds.hello()


def clients_of(text: str) -> float | int | None:
    """Devices per round: a share, a number, or all (an empty text)."""
    if not text:
        return None
    return float(text) if "." in text else int(text)


def tell(folder: Path, **facts: Any) -> None:
    write(folder / MARKER, json.dumps(facts))
