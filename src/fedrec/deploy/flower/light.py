"""A light node: the ClientApp in one warm process, over the connection of Flower's own SuperNode.

It runs the app that is installed here and never loads a bundle, so that a server cannot send code to a device.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fedrec.core.errors import FedrecError
from fedrec.deploy.flower import needed
from fedrec.deploy.keys import check_certificate, node_keys

SOON, LATER = 0.1, 2.0  # seconds between two looks for a question: soon after one, later when it is quiet


def serve(
    server: str, ca: Path, key: Path, devices: list[Path], stop: threading.Event, say: Callable[[str], None]
) -> None:
    """Answers questions until it is told to stop."""
    needed()
    check_certificate(ca)
    keys = node_keys(key)
    from flwr.app import Context, RecordDict
    from flwr.supernode.fleet_http_connection import http_request_response

    from fedrec.deploy.flower.clientapp import app, devices_in

    folders = ",".join(str(path.resolve()) for path in devices)
    here = devices_in(folders)  # a device that cannot be opened is said here, not in a round
    say("getting ready: the first time it takes a minute or so")
    here.warm_up()
    release(server, ca, keys, key.with_suffix(".id"))
    with http_request_response(server, False, str(ca), keys, max_wait_time=60) as connection:
        node_id, receive, send, _, _, pull_object, push_object, confirm = connection
        key.with_suffix(".id").write_text(str(node_id))
        say(f"node {node_id} is there, with {len(devices)} devices")
        wait = SOON
        while not stop.is_set():
            received = receive()
            if received is None:
                stop.wait(wait)
                wait = min(2 * wait, LATER)
                continue
            wait = SOON
            message, tree = received
            run = message.metadata.run_id
            began = time.monotonic()
            question = _inflated(tree, partial(pull_object, run))
            confirm(run, tree.object_id)
            context = Context(run, node_id, {"devices": folders}, RecordDict(), {})
            reply = app(message=question, context=context)
            _push(reply, send, push_object, time.monotonic() - began)


def _inflated(tree: Any, pull: Callable[[str], bytes]) -> Any:
    """The message with its content."""
    from flwr.app import Message
    from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
    from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects

    contents = pull_objects([t.object_id for t in iterate_object_tree(tree)], pull_object_fn=pull)
    message = inflate_object_from_contents(tree.object_id, contents)
    assert isinstance(message, Message)
    message.metadata.__dict__["_message_id"] = tree.object_id
    return message


def _push(reply: Any, send: Any, push_object: Any, seconds: float) -> None:
    from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree

    reply.metadata.__dict__["_message_id"] = reply.object_id
    tree, objects = get_object_tree(reply), get_all_nested_objects(reply)
    wanted, session = send(reply, tree, seconds)
    for name, made in objects.items():
        if name in wanted:
            push_object(reply.metadata.run_id, session, name, made.deflate())


def release(server: str, ca: Path, keys: Any, remembered: Path) -> None:
    """A node that was killed is still taken for active for a minute: its own last id is given back first."""
    import httpx
    from flwr.proto.fleet_pb2 import DeactivateNodeRequest
    from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    if not remembered.exists():
        return
    interceptors = [RuntimeVersionHttpInterceptor(component_name="SuperNode"), NodeAuthHttpInterceptor(*keys)]
    try:
        with FleetHttpClient.from_server_address(server, False, str(ca), interceptors=interceptors) as client:
            client.DeactivateNode(DeactivateNodeRequest(node_id=int(remembered.read_text())))
    except httpx.ConnectError as error:
        raise FedrecError(f"no server answers at {server}: {error}") from None
    except (httpx.HTTPError, ValueError, RuntimeError):
        pass  # it was given back already, or belongs to another deployment
