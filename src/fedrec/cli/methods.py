"""fedrec methods: what there is, and the settings of one."""

from __future__ import annotations

import inspect
import re
import sys
from typing import Annotated, Any

import typer

from fedrec.cli.terminal import console, say, say_json


def methods(
    name: Annotated[str | None, typer.Argument(help="A method: list its settings.")] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object on stdout, nothing else.")
    ] = False,
) -> None:
    """All methods and wrappers: paper, what stays private, what an upload reveals, when to use it."""
    facts = _settings(name) if name else _all()
    if json:
        say_json(facts)
        return
    shown = console()
    for table in _settings_tables(facts) if name else _method_tables(facts):
        shown.print(table)
    if not name:
        knowing = ", ".join(m["name"] for m in facts["methods"] if m.get("ranks_from_history"))
        say(f"Rank from a history that may have grown since training (protocol next): {knowing}.")


def _all() -> dict[str, Any]:
    from fedrec.core.federated import Federated, ranks_from_history
    from fedrec.core.slots import Catalog
    from fedrec.methods import ALIASES, METHODS, WRAPPERS, find, make
    from fedrec.methods.central.base import Central

    catalog = Catalog(1, 1)
    found = []
    for name in (*METHODS, *ALIASES):
        method = make(name)
        use_when = ALIASES[name].use_when if name in ALIASES else method.use_when
        facts: dict[str, Any] = {"name": name, "citation": method.citation, "use_when": use_when}
        if isinstance(method, Federated):
            stays = [n for n, s in method.slots(catalog).items() if s.owner in ("private", "fresh")]
            facts |= {"kind": "federated", "private": stays, "uploads": list(method.uploads(catalog).arrays)}
            facts |= {"reveals": method.reveals, "view": method.view()}
            facts |= {"ranks_from_history": ranks_from_history(method, catalog)}
        else:
            assert isinstance(method, Central)
            facts |= {"kind": "central", "ranks_from_history": method.ranks_from_history}
        found.append(facts)
    for name in WRAPPERS:
        kind = find(name)
        facts = {"name": name, "kind": "wrapper", "citation": kind.citation, "use_when": kind.use_when}
        found.append(facts)
    return {"methods": found}


def _method_tables(facts: dict[str, Any]) -> list[Any]:
    from rich.table import Table

    headings = {
        "federated": "Federated methods",
        "wrapper": "Wrappers, written base+wrapper",
        "central": "Central yardsticks: they see all interactions in one place",
    }
    tables = []
    for kind, heading in headings.items():
        table = Table("name", "paper", "use it when", title=heading, title_justify="left", title_style="bold")
        for row in (m for m in facts["methods"] if m["kind"] == kind):
            table.add_row(row["name"], row["citation"], row["use_when"])
        tables.append(table)
    leaves = Table(
        "name", "stays on the device", "is uploaded", "what one upload reveals if it is seen alone"
    )
    leaves.title, leaves.title_justify, leaves.title_style = "What leaves a device", "left", "bold"
    for row in (m for m in facts["methods"] if m["kind"] == "federated"):
        leaves.add_row(row["name"], _short(row["private"]), _short(row["uploads"]), row["reveals"])
    return [tables[0], leaves, *tables[1:]]


def _short(names: list[str]) -> str:
    """Layers are many: name the first few."""
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:2])} ... {names[-1]}"


def _settings(name: str) -> dict[str, Any]:
    from fedrec.core.wrapper import Wrapper
    from fedrec.methods import expand, find, make, own_fields, settings_of
    from fedrec.runs.presets import NAMES, differ, preset

    parts, spec = [], expand(name)[0]
    alone = issubclass(find(spec.partition("+")[0]), Wrapper)  # a wrapper by itself is no method yet
    presets = {} if alone else {each: preset(name, each) for each in NAMES}
    values = {each: settings_of(make(name, found.settings)) for each, found in presets.items()}
    for part in spec.split("+"):
        kind = find(part)
        fields = []
        for field in own_fields(kind):
            full, usual = f"{part}.{field}", kind.model_fields[field].default
            default, honest = (_plain(values.get(each, {}).get(full, usual)) for each in NAMES)
            facts = {"name": field, "usual": _plain(usual), "default": default, "honest": honest}
            fields.append({**facts, "description": kind.model_fields[field].description or ""})
        parts.append({"name": part, "citation": kind.citation, "about": _about(kind), "settings": fields})
    sources = {
        each: {"rounds": found.rounds, "source": list(found.source)} for each, found in presets.items()
    }
    same = not alone and not differ(name)
    return {"method": name, "parts": parts, "presets": sources, "same": same}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _about(kind: type) -> str:
    """What its file says of it, then what the class says of itself."""
    said = (sys.modules[kind.__module__].__doc__, kind.__doc__)
    return "\n\n".join(inspect.cleandoc(text) for text in said if text)


def _flowing(text: str) -> str:
    """Paragraphs on one line each, so that they wrap where the terminal ends; formulas are indented and stay."""
    return re.sub(r"(?<=\S)\n(?=\S)(?!- )", " ", text)


def _settings_tables(facts: dict[str, Any]) -> list[Any]:
    from rich.table import Table
    from rich.text import Text

    def text(value: Any) -> str:
        return (",".join(map(str, value)) if isinstance(value, list) else str(value)) or "(none)"

    shown: list[Any] = []
    for part in facts["parts"]:
        two = any(field["default"] != field["honest"] for field in part["settings"])
        one = "default" if all(field["default"] == field["usual"] for field in part["settings"]) else "both"
        table = Table(box=None, pad_edge=False)
        for column in ("setting", *(("paper", "honest") if two else (one,)), "meaning"):
            table.add_column(column)
        for field in part["settings"]:
            values = [text(field["default"])]
            if two:
                values.append(text(field["honest"]) if field["honest"] != field["default"] else "")
            table.add_row(field["name"], *values, field["description"])
        shown += [Text(part["name"], style="bold"), Text(_flowing(part["about"]) + "\n")]
        shown.append(table if part["settings"] else Text("It has no settings."))
    for name, told in facts["presets"].items():
        rounds = f", {told['rounds']} rounds" if told["rounds"] else ""
        shown += [Text(f"preset {name}{rounds}: {source}") for source in told["source"]]
    if facts["same"] and any(part["settings"] for part in facts["parts"]):
        shown.append(Text("The presets paper and honest are the same."))
    return shown
