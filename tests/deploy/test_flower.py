"""Through Flower, with TLS, keys and processes that are killed: the simulator's bits. And strangers are refused."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="needs the extra 'flower': make deploy-test")
from fedrec.data.worlds.two_tastes import two_tastes
from fedrec.deploy.flower.link import Link, free_port
from fedrec.deploy.keys import CA, make_certificates, make_node_key
from fedrec.deploy.rehearse import furthest, simulated
from fedrec.deploy.terms import Terms
from fedrec.deploy.trial import Trial, rehearsal

pytestmark = pytest.mark.deploy
LONGEST = 900  # seconds: a bound for a machine that is busy with other things


def check_same(trial: Trial) -> None:
    far = furthest(trial.server, trial.devices, simulated(trial.data, trial.terms, trial.rounds))
    assert far
    assert {name: value for name, value in far.items() if value > 0} == {}


def until(trial: Trial, round: int) -> None:
    """Waits for the end of a round."""
    end = time.monotonic() + LONGEST
    while len(trial.server.history()) < round:
        assert time.monotonic() < end, trial.state()
        assert trial.state().get("state") != "failed", trial.state()
        time.sleep(0.1)


@pytest.mark.parametrize("channel", ["fixed", "secure"])
def test_nodes_that_are_killed_change_no_bit(channel: str, tmp_path: Path) -> None:
    """A node is killed with -9 after a round and started again; it goes on with its file and its id."""
    terms = Terms(method="pfedrec", channel=(channel,), threshold=4 if channel == "secure" else 6)
    with rehearsal(tmp_path / "t", terms, two_tastes(6, 40), 6, 3, nodes=2) as trial:
        trial.start_run(seconds=60)
        until(trial, 1)
        killed = trial.nodes[1]
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        trial.start_node(1)
        trial.wait(seconds=LONGEST)
    if all(line["devices"] == 6 for line in trial.server.history()):
        check_same(trial)
    else:  # a round that went on without it: nothing of what it trained then may count
        assert trial.server.history()[-1]["devices"] >= terms.threshold


def test_the_server_goes_on_after_it_was_killed(tmp_path: Path) -> None:
    """SuperLink and ServerApp are killed with -9 in the middle; started again, they go on with the same bits."""
    terms = Terms(method="fedmf", channel=("fixed",), threshold=6)
    with rehearsal(tmp_path / "t", terms, two_tastes(6, 40), 6, 3, nodes=1) as trial:
        trial.start_run(seconds=60)
        until(trial, 1)
        link = trial.link.processes.pop(0)
        os.killpg(link.pid, signal.SIGKILL)
        link.wait()
        trial.link.start()
        trial.start_run(seconds=60)
        trial.wait(seconds=LONGEST)
    check_same(trial)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    """A server with its proxy and one node, for strangers to knock at."""
    path = tmp_path_factory.mktemp("standing")
    with rehearsal(
        path / "t", Terms(method="fedmf", channel=("fixed",)), two_tastes(6, 40), 6, 1, nodes=1
    ) as trial:
        yield trial


def node(trial: Trial, key: Path, *, ca: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A node process with another key, for half a minute at most."""
    command = [sys.executable, "-m", "fedrec.cli.main", "node", "--server", trial.address, "--key", str(key)]
    command += ["--ca", str(ca or trial.folder / "tls" / CA), str(trial.devices[0])]
    around = trial.link.environment
    return subprocess.run(command, env=around, capture_output=True, text=True, timeout=LONGEST, check=False)


def test_a_stranger_with_the_certificate_and_no_registered_key_is_refused(
    standing: Trial, tmp_path: Path
) -> None:
    done = node(standing, make_node_key(tmp_path / "own"))
    assert done.returncode != 0
    assert "is there" not in done.stdout


def test_a_revoked_key_is_refused(standing: Trial, tmp_path: Path) -> None:
    key = make_node_key(tmp_path / "late")
    standing.link.register(key)
    standing.link.revoke(key)
    done = node(standing, key)
    assert done.returncode != 0
    assert "is there" not in done.stdout


def test_the_public_half_of_another_key_is_of_no_use(standing: Trial, tmp_path: Path) -> None:
    """Who signs with its own key under another's name is refused."""
    from cryptography.hazmat.primitives import serialization

    from fedrec.deploy.keys import node_keys

    mine, _ = node_keys(make_node_key(tmp_path / "thief"))
    public = serialization.load_ssh_public_key(Path(f"{standing.groups[0][0]}.pub").read_bytes())
    import httpx
    from flwr.proto.fleet_pb2 import ActivateNodeRequest
    from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
    from flwr.supercore.primitives.asymmetric import public_key_to_bytes
    from flwr.supernode.fleet_http_client import FleetHttpClient
    from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

    ways: list[Any] = [
        RuntimeVersionHttpInterceptor(component_name="SuperNode"),
        NodeAuthHttpInterceptor(mine, public),
    ]
    with (
        FleetHttpClient.from_server_address(
            standing.address, False, str(standing.folder / "tls" / CA), interceptors=ways
        ) as client,
        pytest.raises(httpx.HTTPStatusError) as refused,
    ):
        client.ActivateNode(
            ActivateNodeRequest(public_key=public_key_to_bytes(public), heartbeat_interval=30)
        )
    assert refused.value.response.status_code in (401, 403)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/control/start-run", 404),
        ("/v1/fleet/register-node", 403),
        ("/v1/runtime/pull-task-input", 404),
        ("/", 404),
    ],
)
def test_nothing_but_the_fleet_passes(standing: Trial, path: str, status: int) -> None:
    import httpx

    trusted = ssl.create_default_context(cafile=str(standing.folder / "tls" / CA))
    with httpx.Client(verify=trusted, trust_env=False) as client:
        assert client.post(f"https://{standing.address}{path}", content=b"x").status_code == status


def test_a_run_from_outside_is_refused(standing: Trial) -> None:
    """Flower's own command, with the right certificate, at the door that devices use."""
    outside = Link(standing.folder, standing.proxy.port)
    home = standing.folder / "outside"
    home.mkdir(exist_ok=True)
    config = (standing.folder / "flwr" / "config.toml").read_text()
    (home / "config.toml").write_text(config.replace(str(standing.link.port), str(standing.proxy.port)))
    from fedrec.deploy.flower.link import script

    command = [script("flwr"), "run", str(standing.folder / "app"), "fedrec"]
    around = {**outside.environment, "FLWR_HOME": str(home)}
    done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert done.returncode != 0
    assert standing.state() == {}


def test_another_authority_is_not_trusted(standing: Trial, tmp_path: Path) -> None:
    make_certificates(tmp_path / "other", [])
    done = node(standing, standing.groups[0][0], ca=tmp_path / "other" / CA)
    assert done.returncode != 0


def test_a_certificate_that_ran_out_is_said(tmp_path: Path) -> None:
    from fedrec.core.errors import FedrecError
    from fedrec.deploy.keys import check_certificate

    make_certificates(tmp_path / "tls", [], days=0)
    with pytest.raises(FedrecError, match="ran out on"):
        check_certificate(tmp_path / "tls" / CA)


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    import socket

    from fedrec.core.errors import FedrecError

    make_certificates(tmp_path / "tls", [])
    port = free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(FedrecError, match=f"port {port} of this machine is in use"):
            Link(tmp_path, port).start()
    assert not (tmp_path / "logs").exists(), "nothing was started"


def test_what_is_used_of_flower_is_there() -> None:
    """A contract with modules that are not Flower's public surface."""
    import inspect

    from flwr.serverapp import Grid
    from flwr.supernode.fleet_http_connection import http_request_response

    wanted = [
        "server_address",
        "insecure",
        "root_certificates",
        "authentication_keys",
        "max_retries",
        "max_wait_time",
    ]
    assert list(inspect.signature(http_request_response).parameters) == wanted
    assert {"push_messages", "pull_messages", "get_node_ids"} <= set(dir(Grid))
