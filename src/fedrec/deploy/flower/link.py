"""The processes of a deployment: a SuperLink, runs on it, nodes. Each is stopped by its own id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from fedrec.core.errors import FedrecError
from fedrec.core.files import write
from fedrec.deploy.flower import QUIET, needed
from fedrec.deploy.keys import CA, CERTIFICATE, KEY, check_certificate

NAME = "fedrec"  # of the connection in Flower's configuration
APP = {
    "project": {"name": "fedrec-app", "version": "0.2.0", "dependencies": []},
    "build-system": {"requires": ["hatchling"], "build-backend": "hatchling.build"},
    "tool": {
        "flwr": {
            "app": {
                "publisher": "fedrec",
                "components": {
                    "serverapp": "fedrec.deploy.flower.serverapp:app",
                    "clientapp": "fedrec.deploy.flower.clientapp:app",
                },
                # What a run may be told; Flower refuses names that are not here.
                "config": {
                    "folder": "",
                    "rounds": 0,
                    "clients": "",
                    "devices": 0,
                    "seconds": 120.0,
                    "wait": 60.0,
                },
            }
        }
    },
}


def write_app(folder: Path) -> None:
    """The app's bundle is a name: both halves are installed where they run."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "pyproject.toml", tomli_w.dumps(APP))


@dataclass
class Link:
    """A SuperLink on this machine, behind the proxy."""

    folder: Path  # of the deployment
    port: int
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        here = str(Path(sys.executable).parent)
        path = os.environ.get("PATH", "")
        return {
            **os.environ, **QUIET, "FLWR_HOME": str(self.folder / "flwr"), "PATH": f"{here}{os.pathsep}{path}",
            "NO_PROXY": "*", "PYTHONUNBUFFERED": "1",
        }  # fmt: skip

    def begin(self, command: list[str], name: str) -> subprocess.Popen[bytes]:
        """A process of its own group, its words in a log."""
        logs = self.folder / "logs"
        logs.mkdir(exist_ok=True)
        with (logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self.environment,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def start(self) -> subprocess.Popen[bytes]:
        needed()
        tls = self.folder / "tls"
        check_certificate(tls / CERTIFICATE)
        if not free(self.port):
            raise FedrecError(
                f"port {self.port} of this machine is in use: stop what uses it, or choose another"
            )
        home = self.folder / "flwr"
        home.mkdir(exist_ok=True)
        address = {"address": f"127.0.0.1:{self.port}", "root-certificates": str((tls / CA).resolve())}
        write(home / "config.toml", tomli_w.dumps({"superlink": {"default": NAME, NAME: address}}))
        process = self.begin(
            [
                script("flower-superlink"),
                "--ssl-ca-certfile", str(tls / CA), "--ssl-certfile", str(tls / CERTIFICATE),
                "--ssl-keyfile", str(tls / KEY), "--enable-supernode-auth",
                "--disable-runtime-dependency-installation", "--database", str(self.folder / "superlink.sqlite"),
                "--host", "127.0.0.1", "--port", str(self.port),
            ],
            "superlink",
        )  # fmt: skip
        until = time.monotonic() + 120
        while free(self.port):
            if process.poll() is not None or time.monotonic() > until:
                raise FedrecError(f"the SuperLink did not start: {self.last_words('superlink')}")
            time.sleep(0.2)
        return process

    def register(self, key: Path) -> None:
        """A node that may take part from now on."""
        from flwr.proto.control_pb2 import RegisterNodeRequest

        with self._control() as control:
            control.RegisterNode(RegisterNodeRequest(public_key=public_bytes(key)))

    def revoke(self, key: Path) -> None:
        """A node that may not any more."""
        from flwr.proto.control_pb2 import ListNodesRequest, UnregisterNodeRequest

        with self._control() as control:
            for node in control.ListNodes(ListNodesRequest()).nodes_info:
                if node.public_key == public_bytes(key):
                    control.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
                    return
        raise FedrecError(f"no node was registered with {key}")

    def _control(self) -> Any:
        from flwr.supercore.control import ControlHttpClient
        from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor

        return ControlHttpClient.from_server_address(
            f"127.0.0.1:{self.port}", False, str(self.folder / "tls" / CA),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )  # fmt: skip

    def run(self, **config: Any) -> None:
        """Start a run; what becomes of it stands in the server's folder."""
        told = self.folder / "run.toml"
        write(told, tomli_w.dumps(config))
        command = [script("flwr"), "run", str(self.folder / "app"), NAME, "--run-config", str(told)]
        done = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        if done.returncode:
            words = (done.stdout + done.stderr).strip().splitlines()
            raise FedrecError(f"Flower did not start the run: {words[-1] if words else done.returncode}")

    def node(self, name: str, server: str, key: Path, devices: list[Path]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "fedrec.cli.main", "node", "--server", server]
        command += ["--ca", str(self.folder / "tls" / CA), "--key", str(key), *map(str, devices)]
        return self.begin(command, name)

    def supernode(self, name: str, server: str, key: Path, devices: list[Path]) -> subprocess.Popen[bytes]:
        """Flower's own node: a process for every message, with the app that the server's bundle names."""
        folders = ",".join(str(path.resolve()) for path in devices)
        command = [script("flower-supernode"), "--superlink", server, "--port", str(free_port())]
        command += [
            "--root-certificates",
            str(self.folder / "tls" / CA),
            "--auth-supernode-private-key",
            str(key),
        ]
        return self.begin([*command, "--node-config", f'devices="{folders}"'], name)

    def last_words(self, name: str) -> str:
        path = self.folder / "logs" / f"{name}.log"
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1] if lines else "it said nothing"

    def stop(self) -> None:
        """Everything that was started here, with what it started itself, newest first."""
        for process in reversed(self.processes):
            end(process)
        self.processes.clear()


def begun_by(pid: int) -> list[int]:
    """What a process started, directly or not: Flower's own helpers have groups of their own."""
    parents = _parents()
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, parent in parents if parent in found}
    return sorted(found - {pid})


def _parents() -> list[tuple[int, int]]:
    """All processes with their parents, from /proc, or from ``ps`` where there is none."""
    if not Path("/proc/self/stat").exists():
        listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True).stdout
        return [(int(pid), int(parent)) for pid, parent in map(str.split, listed.splitlines())]
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since
            found.append((int(path.parent.name), int(path.read_text().rpartition(")")[2].split()[1])))
    return found


def end(process: subprocess.Popen[bytes], seconds: float = 8) -> None:
    """A process, its group, and whatever it started that lives on: a ServerApp would wait for its SuperLink."""
    others = begun_by(process.pid)
    for sent in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
        except ProcessLookupError:
            break
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    for pid in others:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def script(name: str) -> str:
    """A command of this environment."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise FedrecError(f"{name} is not beside {sys.executable}: pip install 'fedrec[flower]'")
    return str(path)


def public_bytes(key: Path) -> bytes:
    from cryptography.hazmat.primitives import serialization

    public = serialization.load_ssh_public_key(Path(f"{key}.pub").read_bytes())
    made: bytes = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return made


def free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket() as sock:
        sock.settimeout(0.5)
        return sock.connect_ex((host, port)) != 0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
