"""Flower's ClientApp: hands a node's devices the question, and their answer back. The same for both kinds of nodes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedrec.core.errors import FedrecError
from fedrec.deploy.device import Device
from fedrec.deploy.flower import FIELD, RECORD
from fedrec.deploy.node import Node

app = ClientApp()


@cache
def devices_in(folders: str) -> Node:
    """The devices of a node, opened once: an official SuperNode asks a new process each time, a light one does not."""
    return Node([Device(Path(folder)) for folder in folders.split(",")])


@app.query()
def answer(message: Message, context: Context) -> Message:
    record = message.content[RECORD]
    assert isinstance(record, ConfigRecord)
    data = record[FIELD]
    if not isinstance(data, bytes):
        raise FedrecError("a message without bytes")
    said = devices_in(str(context.node_config["devices"])).answer(data)
    return Message(content=RecordDict({RECORD: ConfigRecord({FIELD: said})}), reply_to=message)
