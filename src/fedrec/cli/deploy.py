"""fedrec deploy: a federation of real devices, rehearsed on this machine or run for good."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec.cli.terminal import escape, say, say_facts, say_json

app = typer.Typer(help="A federation of real devices, through Flower.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the deployment.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout and nothing else.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="Setting of the method as name=value; repeat.")]
Method = Annotated[str, typer.Option(help="Which method, such as pfedrec or fedmf+dualper.")]
Channel = Annotated[
    list[str] | None,
    typer.Option(
        help=escape("What uploads pass through; the last one is secure or fixed [default: secure].")
    ),
]
Epsilon = Annotated[
    float | None, typer.Option(help="Privacy of a device's whole data: noise is found for the rounds.")
]
Threshold = Annotated[int, typer.Option(help="Devices that a sum needs at least.")]
ROUND = "{round:>5}  {devices:>7}  {up:>12}  {down:>12}  {seconds:>7}  {hr:>6}"
HEADING = ROUND.format(
    round="round", devices="devices", up="bytes up", down="down", seconds="seconds", hr="hr@10"
)


def _terms(
    method: str,
    settings: list[str] | None,
    channel: list[str] | None,
    threshold: int,
    catalog: Any,
    rounds: int,
    epsilon: float | None,
    **more: Any,
) -> Any:
    from fedrec.core.errors import FedrecError
    from fedrec.deploy.private import with_epsilon
    from fedrec.deploy.terms import Terms

    pairs = [text.partition("=") for text in settings or []]
    for name, equals, _ in pairs:
        if not (name and equals):
            raise FedrecError("write settings as --set name=value")
    chosen = {name: value for name, _, value in pairs}
    said = with_epsilon(method, chosen, channel or ["secure"], catalog, rounds, epsilon)
    return Terms(**said, threshold=threshold, **more).check()


@app.command("try")
def try_(
    method: Method = "pfedrec",
    data: Annotated[str, typer.Option(help="Which data; their first users become devices.")] = "demo",
    devices: Annotated[int, typer.Option(min=1, help="How many devices.")] = 8,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 5,
    nodes: Annotated[
        int | None, typer.Option(min=1, help=escape("Processes that they live in [default: up to 4]."))
    ] = None,
    official: Annotated[
        bool,
        typer.Option("--official", help="Flower's own SuperNodes, which start a process for each message."),
    ] = False,
    channel: Channel = None,
    threshold: Threshold = 3,
    epsilon: Epsilon = None,
    settings: Set = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the rehearsal and the simulation.")] = 0,
    keep: Annotated[Path | None, typer.Option(help="Keep everything in this new folder.")] = None,
    json: Json = False,
) -> None:
    """Rehearse on this machine: real processes, TLS, keys and files; then how it differs from the simulator."""
    import shutil

    import fedrec
    from fedrec.data.split import split
    from fedrec.deploy.flower import needed
    from fedrec.deploy.rehearse import some_of
    from fedrec.deploy.trial import compared, here, rehearsal, same_bits

    needed()
    loaded = fedrec.load(data)
    catalog = split(some_of(loaded, devices), "strict", seed).catalog
    terms = _terms(method, settings, channel, threshold, catalog, rounds, epsilon, seed=seed)
    folder, memory = here(keep), [float("nan")]

    def began() -> None:
        if not json:
            count = min(devices, loaded.n_users)
            say(f"{terms.made.label} on {count} devices, {' then '.join(terms.channel)}: starting")

    def watch(line: dict[str, Any]) -> None:
        memory[0] = trial.memory()
        if not json:
            say(ROUND.format(**_shown(line)))

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whatever was started is stopped then, too
    try:
        with rehearsal(
            folder, terms, loaded, devices, rounds, nodes, official=official, began=began
        ) as trial:
            if not json:
                say(HEADING)
            trial.start_run()
            trial.wait(watch)
            wire = trial.proxy.up, trial.proxy.down
        outcome = compared(trial, memory[0], wire)
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if json:
        say_json({**outcome.__dict__, "same_bits": same_bits(outcome)})
        return
    far = max(outcome.apart.items(), key=lambda pair: pair[1])
    same = "to the bit" if same_bits(outcome) else f"but for {far[1]:.1e} in {far[0]}"
    simulator = f"{len(outcome.apart)} arrays of server and devices are the simulator's, {same}"
    if outcome.absent:
        simulator += f"; {outcome.absent} answers did not come in time, where a simulation has them all"
    selected = f"round {outcome.selected[0]} (simulator: {outcome.selected[1]}), by the devices' own figures"
    if outcome.promised is not None:
        simulator = (
            "other bits than the simulator's: noise came from this system's randomness, not from the seed"
        )
        selected = f"round {outcome.selected[0]}, the last: devices told no figures"
    say_facts(
        {
            **({} if outcome.promised is None else {"promised": outcome.promised}),
            "simulator": simulator,
            "selected": selected,
            "a round": f"{outcome.seconds:.1f} s in the median; {outcome.megabytes:.0f} MB of memory a device",
            "on the wire": f"{outcome.bytes_up:,} bytes up, {outcome.bytes_down:,} down, a device and round",
            "predicted": f"{outcome.predicted_up:,.0f} up, {outcome.predicted_down:,.0f} down",
        }
    )
    if keep is not None:
        say(f"{keep}: server's and devices' files, certificates, logs")


def _shown(line: dict[str, Any]) -> dict[str, str]:
    hr = line.get("validation", {}).get("hr@10")
    return {
        "round": str(line["round"]),
        "devices": f"{line['devices']}/{line['asked']}",
        "up": f"{line['bytes_up']:,}",
        "down": f"{line['bytes_down']:,}",
        "seconds": f"{line['seconds']:.1f}",
        "hr": "" if hr is None else f"{100 * hr:.1f}",
    }


@app.command("init")
def init(
    folder: Folder,
    items: Annotated[Path, typer.Option(help="The catalogue: a CSV file with item and title.")],
    method: Method = "fedals",
    host: Annotated[
        str, typer.Option(help="Name or address under which devices find the server.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65534, help="Port that devices connect to.")] = 9443,
    devices: Annotated[int, typer.Option(min=1, help="How many devices are expected at most.")] = 100,
    positives: Annotated[float, typer.Option(help="How many items a device has met, on average.")] = 100.0,
    rounds: Annotated[int, typer.Option(min=1, help="How many rounds.")] = 20,
    channel: Channel = None,
    threshold: Threshold = 3,
    epsilon: Epsilon = None,
    settings: Set = None,
) -> None:
    """Write all that a deployment needs: certificates, terms, app, units, and a page on each file."""
    from fedrec.core.slots import Catalog
    from fedrec.deploy.flower import needed
    from fedrec.deploy.plan import make_plan
    from fedrec.deploy.state import read_items

    needed()
    catalog = Catalog(devices, len(read_items(items)[0]), positives)
    plan = make_plan(
        folder, _terms(method, settings, channel, threshold, catalog, rounds, epsilon), items,
        devices=devices, positives=positives, host=host, port=port, rounds=rounds,
    )  # fmt: skip
    say(f"{folder}: ready; {folder / 'README.md'} says what each file is")
    say(
        f"next: fedrec deploy serve {folder}, then fedrec deploy add-device {folder} --name phone (port {plan.port})"
    )


@app.command("add-device")
def add_device(
    folder: Folder,
    name: Annotated[str, typer.Option(help="What to call it here.")],
    revoke: Annotated[bool, typer.Option("--revoke", help="It may not take part any more.")] = False,
) -> None:
    """A key for one more device, registered with the server that is running."""
    from fedrec.deploy.flower.link import Link
    from fedrec.deploy.keys import NODE_KEY
    from fedrec.deploy.plan import make_node, read_plan

    plan = read_plan(folder)
    link = _running(Link(folder, plan.link_port))
    if revoke:
        link.revoke(folder / "nodes" / name / NODE_KEY)
        say(f"{name} may not take part any more")
        return
    made = make_node(plan, name)
    link.register(made / NODE_KEY)
    say(f"{made}: hand this folder to the device; there:")
    say("  fedrec device init device --items items.csv --data met.csv")
    say(f"  fedrec node --server {plan.host}:{plan.port} --ca ca.pem --key node.key device")


def _running(link: Any) -> Any:
    from fedrec.core.errors import FedrecError
    from fedrec.deploy.flower import needed
    from fedrec.deploy.flower.link import free

    needed()
    if free(link.port):
        raise FedrecError(f"the server is not running: fedrec deploy serve {link.folder}")
    return link


@app.command("serve")
def serve(folder: Folder) -> None:
    """Start the server, and the proxy that devices connect to; stops both when it is stopped."""
    from fedrec.core.errors import FedrecError
    from fedrec.deploy.flower.link import Link, free
    from fedrec.deploy.flower.proxy import Proxy
    from fedrec.deploy.plan import read_plan

    plan = read_plan(folder)
    if not free(plan.port):
        raise FedrecError(
            f"port {plan.port} of this machine is in use: stop what uses it, or change deploy.toml"
        )
    stop = threading.Event()
    for sent in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sent, lambda *_: stop.set())
    link, proxy = Link(folder, plan.link_port), Proxy(folder / "tls", "0.0.0.0", plan.port, plan.link_port)
    try:
        process = link.start()
        proxy.start()
        say(f"devices connect to {plan.host}:{plan.port}; start the rounds with fedrec deploy run {folder}")
        while not stop.wait(1):
            if process.poll() is not None:
                raise FedrecError(f"the SuperLink stopped: {link.last_words('superlink')}")
    finally:
        link.stop()
        proxy.stop()


@app.command("run")
def run(
    folder: Folder,
    rounds: Annotated[
        int | None, typer.Option(min=1, help=escape("Up to this round [default: as in deploy.toml]."))
    ] = None,
    devices: Annotated[int, typer.Option(min=0, help="Wait for so many devices, up to a minute.")] = 0,
) -> None:
    """Start the rounds, or go on with them: after a crash, the same command again."""
    from fedrec.deploy.flower.link import Link
    from fedrec.deploy.flower.serverapp import tell
    from fedrec.deploy.plan import read_plan
    from fedrec.deploy.state import Folder as Server

    plan = read_plan(folder)
    link = _running(Link(folder, plan.link_port))
    Server(plan.server).claim()  # a server of before, should one still live, writes no more
    tell(plan.server, state="asked for")
    link.run(
        folder=str(plan.server.resolve()), rounds=rounds or plan.rounds, clients=plan.clients, devices=devices,
        seconds=plan.seconds,
    )  # fmt: skip
    say(f"started; fedrec deploy status {folder} shows how it goes")


@app.command("status")
def status(folder: Folder, json: Json = False) -> None:
    """Rounds so far, devices that took part, bytes, and how well devices say it does."""
    import json as text

    from fedrec.deploy.plan import read_plan
    from fedrec.deploy.state import Folder as Server

    plan = read_plan(folder)
    server = Server(plan.server)
    marker = plan.server / "run.json"
    state = text.loads(marker.read_text(encoding="utf-8")) if marker.exists() else {"state": "not started"}
    lines = server.history()
    if json:
        say_json({**state, "rounds": lines})
        return
    say(f"{state['state']}{': ' + state['why'] if 'why' in state else ''}")
    if lines:
        say(HEADING)
    for line in lines[-20:]:
        say(ROUND.format(**_shown(line)))
        for name, why in list(line["refused"].items())[:3]:
            say(f"       {name}: {why}")
