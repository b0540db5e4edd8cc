"""fedrec doctor: what is installed, what is found, what is missing and how to get it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedrec.cli.terminal import say, say_facts, say_json


def doctor(
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """Versions, threads, memory, data found; what is missing and how to install it."""
    facts = _facts()
    if json:
        say_json(facts)
        return
    lines = dict(facts["versions"])
    for name in ("threads", "memory_gb", "cache", "data_folders"):
        value = facts[name]
        text = ", ".join(value) or "-" if isinstance(value, list) else str(value)
        lines[name.replace("_", " ")] = text
    lines["data found"] = ", ".join(facts["data"]) or "-"
    for name, counts in facts["imported"].items():
        sizes = ("-" if counts[what] is None else f"{counts[what]:,} {what}" for what in counts)
        lines[f"imported {name}"] = ", ".join(sizes)
    say_facts(lines)
    for line in facts["missing"]:
        say(f"missing: {line}", style="yellow")
    if not facts["missing"]:
        say("Nothing is missing.", style="green")


def _facts() -> dict[str, Any]:
    import os

    import platformdirs

    from fedrec.data.sources.catalog import SOURCES
    from fedrec.data.sources.find import find
    from fedrec.data.sources.imported import imported_counts, imported_names
    from fedrec.runs.border import threads_or_all
    from fedrec.runs.result import versions

    folders = [f for f in os.environ.get("FEDREC_DATA", "").split(os.pathsep) if f]
    missing = [f"the folder {f} of FEDREC_DATA does not exist" for f in folders if not os.path.isdir(f)]
    installed = versions()
    if "torch" not in installed:
        missing.append("PyTorch, for methods without a compiled form: pip install 'fedrec[torch]'")
    memory = (
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30 if hasattr(os, "sysconf") else 0.0
    )
    return {
        "versions": installed,
        "threads": threads_or_all(None),
        "memory_gb": round(memory, 1),
        "cache": platformdirs.user_cache_dir("fedrec"),
        "data_folders": folders,
        "data": ["demo", *(name for name, source in SOURCES.items() if find(source))],
        "imported": {name: imported_counts(name) for name in imported_names()},
        "missing": missing,
    }
