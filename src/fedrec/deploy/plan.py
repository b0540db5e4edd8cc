"""A deployment's folder: what ``fedrec deploy init`` writes, and what the other commands read."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedrec.core.errors import FedrecError
from fedrec.core.files import read_toml, write
from fedrec.deploy.flower.link import write_app
from fedrec.deploy.keys import CA, NODE_KEY, make_certificates, make_node_key
from fedrec.deploy.state import CATALOGUE, Folder, read_items
from fedrec.deploy.terms import NAME, Terms

CONFIG = "deploy.toml"
UNIT = """[Unit]
Description=fedrec, the server of a federation
After=network-online.target
Wants=network-online.target

[Service]
User=fedrec
ExecStart="{python}" -m fedrec.cli.main deploy serve "{folder}"
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
"""
NODE_UNIT = """[Unit]
Description=fedrec, a device of a federation
After=network-online.target

[Service]
WorkingDirectory=%h/fedrec
ExecStart="{python}" -m fedrec.cli.main node --server {address} --ca ca.pem --key node.key device
Restart=always
RestartSec=30

[Install]
WantedBy=default.target
"""
COMPOSE = """services:
  server:
    image: python:3.11-slim
    command: sh -c "pip install 'fedrec[flower]' && fedrec deploy serve /deploy"
    volumes: ["./:/deploy"]
    ports: ["{port}:{port}"]
    restart: always
"""
README = """# This federation

| file | what it is | who may have it |
|---|---|---|
| `deploy.toml` | addresses, ports, rounds | the server |
| `server/federation.json` | the terms: method, channel, smallest sum | everybody; devices keep a copy |
| `server/items.csv` | the catalogue; new items go to its end | everybody |
| `server/checkpoint.npz` | what was learned so far, and which round of each device is in it | the server; keep copies |
| `tls/ca.pem` | the authority's certificate | everybody |
| `tls/server.pem`, `tls/server.key` | the server's certificate and key | the server alone |
| `nodes/NAME/` | one device's key and what it needs: hand it over, then delete it here | that device alone |
| `app/` | the name of the app that Flower starts | the server |
| `superlink.sqlite`, `flwr/`, `logs/` | Flower's state and words | the server |
| `fedrec-server.service`, `fedrec-node.service`, `compose.yaml` | ways to keep it running | - |

`fedrec deploy add-device DIR --name NAME` makes a key and registers it. `fedrec deploy serve DIR` starts the
SuperLink and, in front of it, the proxy that passes what nodes say and nothing else. `fedrec deploy run DIR`
starts or goes on with the rounds; `fedrec deploy status DIR` shows them. Under compose these commands are said inside:
`docker compose exec server fedrec deploy run /deploy`.
"""


@dataclass(frozen=True)
class Plan:
    """Where a deployment is, and its numbers."""

    folder: Path
    host: str
    port: int
    link_port: int
    rounds: int
    clients: str
    seconds: float

    @property
    def server(self) -> Path:
        return self.folder / "server"


def make_plan(
    folder: Path,
    terms: Terms,
    catalogue: Path,
    *,
    devices: int,
    positives: float,
    host: str,
    port: int,
    rounds: int,
) -> Plan:
    """Certificates, keys, terms, catalogue, app, units: all that a real deployment needs."""
    import sys

    if folder.exists() and any(folder.iterdir()):
        raise FedrecError(f"{folder} is not empty: choose a new folder")
    terms.check()
    ids, titles = read_items(catalogue)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        make_certificates(folder / "tls", [host])
        Folder.make(folder / "server", terms, ids, titles, devices, positives)
        write_app(folder / "app")
        facts = {
            "host": host,
            "port": port,
            "link_port": port + 1,
            "rounds": rounds,
            "clients": "",
            "seconds": 120.0,
        }
        write(folder / CONFIG, tomli_w.dumps(facts))
        write(folder / "README.md", README)
        told = {
            "python": _quoted(sys.executable),
            "folder": _quoted(str(folder.resolve())),
            "address": f"{host}:{port}",
            "port": port,
        }
        write(folder / "fedrec-server.service", UNIT.format(**told))
        write(folder / "fedrec-node.service", NODE_UNIT.format(**told))
        write(folder / "compose.yaml", COMPOSE.format(**told))
    except BaseException:
        shutil.rmtree(folder)
        raise
    return read_plan(folder)


def _quoted(path: str) -> str:
    """As systemd reads it within quotation marks."""
    return path.replace("%", "%%").replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")


def read_plan(folder: Path) -> Plan:
    if not (folder / CONFIG).is_file():
        raise FedrecError(f"{folder} is no deployment: make one with fedrec deploy init {folder}")
    facts: dict[str, Any] = read_toml(folder / CONFIG)
    try:
        return Plan(folder, **facts)
    except TypeError as error:
        raise FedrecError(f"{folder / CONFIG}: {error}") from None


def make_node(plan: Plan, name: str) -> Path:
    """What one device is handed: a key of its own, the authority's certificate, terms and catalogue."""
    folder = plan.folder / "nodes" / name
    if (folder / NODE_KEY).exists():
        raise FedrecError(f"{folder} is there already: choose another name")
    make_node_key(folder)
    for source in (plan.folder / "tls" / CA, plan.server / NAME, plan.server / CATALOGUE):
        shutil.copy(source, folder / source.name)
    return folder
