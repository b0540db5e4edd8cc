"""What a federation of real processes costs, and whether it has the simulator's bits: the tables of docs/deploy.md.

python benchmarks/deploy.py                           # every method in the clear and masked, then fifty devices
python benchmarks/deploy.py --only fedmf --no-many    # one method

Needs the extra 'flower': run it in the environment that `make deploy-test` makes.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fedrec.core.files import write

METHODS = ["fedmf", "pfedrec", "fedals", "fedrap", "fedncf", "fcf", "fedmf+dualper"]
PAGE = Path("docs/deploy.md")
BEGIN, END = "<!-- figures: benchmarks/deploy.py -->", "<!-- end of figures -->"
HEADING = [
    "method", "channel", "devices, nodes", "rounds", "arrays, furthest from the simulator", "bytes up, on the wire",
    "predicted", "down", "predicted ", "median s a round", "MB a device", "load",
]  # fmt: skip


def tried(method: str, channel: str, devices: int, nodes: int, rounds: int) -> list[str]:
    """A line of the table from one rehearsal."""
    where = Path(sys.executable).with_name("fedrec")
    sizes = ["--devices", str(devices), "--nodes", str(nodes), "--rounds", str(rounds)]
    command = [where, "deploy", "try", "--method", method, "--channel", channel, *sizes, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=1800)
    found: dict[str, Any] = json.loads(done.stdout)
    far = "same bits" if found["same_bits"] else f"{max(found['apart'].values()):.1e}"
    far += f" ({found['absent']} answers missing)" if found["absent"] else ""
    return [
        f"`{method}`", f"`{channel}`", f"{devices}, {nodes}", str(rounds), f"{len(found['apart'])}, {far}",
        f"{found['bytes_up']:,}", f"{found['predicted_up']:,.0f}", f"{found['bytes_down']:,}",
        f"{found['predicted_down']:,.0f}", f"{found['seconds']:.1f}", f"{found['megabytes']:.0f}",
        f"{os.getloadavg()[0]:.0f}",
    ]  # fmt: skip


def main(
    only: Annotated[list[str] | None, typer.Option(help="These methods only; repeatable.")] = None,
    many: Annotated[bool, typer.Option(help="Fifty devices behind five nodes, too.")] = True,
    page: Annotated[Path, typer.Option(help="Page whose figures are replaced.")] = PAGE,
) -> None:
    lines = ["| " + " | ".join(HEADING) + " |", "|" + "---|" * len(HEADING)]
    asked = [(method, channel, 6, 1, 3) for channel in ("secure", "fixed") for method in only or METHODS]
    if many:
        asked += [("fedmf", "fixed", 50, 5, 5), ("fedmf", "secure", 50, 5, 3)]
    for one in asked:
        lines.append("| " + " | ".join(tried(*one)) + " |")
        print(lines[-1], flush=True)
    if only is None and many:
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        write(page, "\n".join([before + BEGIN, *lines, END]) + after)


if __name__ == "__main__":
    typer.run(main)
