"""Can this number be trusted? What decides that, for a group of runs, read from the runs themselves."""

from __future__ import annotations

from html import escape as e
from typing import Any

from fedrec.core.protocol import Protocol
from fedrec.report.entries import Entry
from fedrec.report.groups import Case, Group
from fedrec.report.html import Cell, table
from fedrec.report.numbers import epsilon_of
from fedrec.report.words import count, leak, listed
from fedrec.runs.command import command_of


def trust(group: Group) -> str:
    """Facts, a table of runs, and the commands that made them."""
    facts = "".join(f"<dt>{e(name)}</dt><dd>{e(text)}</dd>" for name, text in _facts(group).items())
    notes = dict.fromkeys(note for entry in group.entries for note in _notes(entry, group))
    said = "".join(f"<li>{e(note)}</li>" for note in [*group.notes, *notes])
    return (
        f"<dl class='facts'>{facts}</dl>"
        + (f"<h4>Notes</h4><ul class='notes'>{said}</ul>" if said else "")
        + _runs(group)
        + "<h4>Exact commands</h4>"
        + "".join(map(_commands, group.cases))
    )


def _facts(group: Group) -> dict[str, str]:
    result, rule = group.result, group.result["protocol_settings"]
    about = {
        name: f"{name.replace('_', ' ')}: {_said(rule[name])} ({field.description})"
        for name, field in Protocol.model_fields.items()
        if field.description
    }
    popularity = result["controls"]["popularity"]
    seeds = sorted({entry.config.seed for entry in group.entries})
    return {
        "Data": f"{group.data}: {count(result['users'], 'user')} ({result['users_dropped']:,} dropped), "
        f"{count(result['items'], 'item')}; fingerprint {group.entries[0].config.fingerprint}",
        "Protocol": f"{group.protocol}. Its choices: " + "; ".join(about.values()) + ".",
        "Selection": _selection(rule) + " "
        "Methods stand in the order of their test figures: who wants to choose one should do so on validation.",
        "Leak counter": leak(group),
        "Controls": f"Popularity: HR@10 {100 * popularity['hr@10']:.2f}, NDCG@10 {100 * popularity['ndcg@10']:.2f} "
        f"(seed {result['seed']}).",
        "Seeds": f"{listed([str(seed) for seed in seeds])}. Everything random is a function of the seed, and results "
        "do not depend on the number of threads.",
        "Privacy": _privacy(group),
        "Versions": "; ".join(dict.fromkeys(_versions(entry) for entry in group.entries)) + ".",
    }


def _privacy(group: Group) -> str:
    stated = {case.label: found for case in group.cases if (found := epsilon_of(case.first.result))}
    terms = {
        case.label: case.first.result["privacy"].get("line", "").partition(" · ")[2] for case in group.cases
        if case.label in stated
    }  # fmt: skip
    said = [
        f"{label}: ε = {eps:.4g}"
        + (f", δ = {delta:.2g}" if delta else "")
        + (f" ({terms[label]})" if terms[label] else "")
        for label, (eps, delta) in stated.items()
    ]
    last = ". A run with an ε reports its last round: to select one would be a release."
    return "; ".join(said) + last if said else "No run states an ε: none is differentially private."


def _versions(entry: Entry) -> str:
    return ", ".join(f"{name} {number}" for name, number in entry.result["versions"].items())


def _notes(entry: Entry, group: Group) -> list[str]:
    result = entry.result
    who = f"{next(case.label for case in group.cases if entry in case.entries)}, seed {entry.config.seed}"
    said = []
    if result["stopped"]:
        said.append(f"{who}: {result['stopped'].rstrip('.')}.")
    if result["clients_dropped"]:
        said.append(
            f"{who}: {count(result['clients_dropped'], 'client update')} dropped, not finite or senseless."
        )
    if result["users_short_of_candidates"]:
        said.append(
            f"{count(result['users_short_of_candidates'], 'user')} had fewer candidates than asked for."
        )
    return [*said, *(f"{note.rstrip('.')}." for note in result.get("notes", []))]


def _runs(group: Group) -> str:
    heads = [
        ("run", "method and seed"),
        ("NDCG@10", "test, percent"),
        ("HR@10", "test, percent"),
        ("validation NDCG@10", "what a choice should be made on"),
        ("round", "selected of played"),
        ("counter AUC", "negative counter, chance is 50, with its standard error"),
        ("leaks", "whether test items reached training"),
        ("view", "what clients ranked with"),
        ("engine", "what computed"),
        ("threads", "results do not depend on them"),
        ("peak MB", "memory of the process"),
    ]
    rows = [_run(case, entry) for case in group.cases for entry in case.entries]
    return table(f"Runs on {group.name}", heads, rows)


def _run(case: Case, entry: Entry) -> list[Cell]:
    result, test = entry.result, entry.result["test"]
    counter, peak = result["controls"]["counter"], result["peak_memory_mb"]
    area = _percent(counter["auc"]) + (
        "" if counter["auc_se"] is None else f" ± {_percent(counter['auc_se'])}"
    )
    played = "-" if result["rounds"] is None else f"{result['selected_round']} of {result['rounds']}"
    return [
        Cell(f"{case.label}, seed {entry.config.seed}", case.label),
        *(
            Cell(_percent(v, 2), float(v))
            for v in (test["ndcg@10"], test["hr@10"], result["validation"]["ndcg@10"])
        ),
        Cell(played, float(result["selected_round"] or 0)),
        Cell(area, float(counter["auc"] or 0)),
        Cell("yes" if result["leaks"] else "no", str(result["leaks"]), strong=bool(result["leaks"])),
        Cell(result["view"] or "-", str(result["view"])),
        Cell(result["engine"], result["engine"]),
        Cell(str(result["threads"]), float(result["threads"])),
        Cell("-" if peak is None else f"{peak:,.0f}", float(peak or 0)),
    ]


def _commands(case: Case) -> str:
    lines = "".join(f"<code>{e(command_of(entry.config))}</code>" for entry in case.entries)
    given = any(entry.config.source is None for entry in case.entries)
    note = "<p>Its data were given in Python; a copy is kept with the run.</p>" if given else ""
    label = f"Commands of {case.label}"
    return f'<pre tabindex="0" role="region" aria-label="{e(label)}">{lines}</pre>{note}'


def _said(value: Any) -> str:
    return {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _percent(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{100 * value:.{digits}f}"


def _selection(rule: dict[str, Any]) -> str:
    if rule.get("select_by") == "test":
        return f"THE ROUND IS THE BEST OF ALL ON TEST {rule['select_on']}: the figures are too good."
    return f"The round is selected on validation {rule['select_on']}; test is read for that round only."
