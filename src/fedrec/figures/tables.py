"""Results as tables for the terminal. Figures are in percent there, fractions in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def result_table(result: dict[str, Any]) -> Table:
    """One run: what was measured, how, beside its controls."""
    if result["all_data"]:
        return people_table(result)
    test, controls = result["test"], result["controls"]
    table = Table(
        title=f"{result['method']} on {result['data']}, protocol {result['protocol']}"
        f"{', LEAKING' if leaking(result) else ''}{', SELECTED ON TEST' if by_test(result) else ''}, "
        f"seed {result['seed']}",
        title_justify="left",
    )
    table.add_column("")
    names = [name for name in test if name.startswith(("hr@", "ndcg@"))] + ["auc"]
    for name in names:
        table.add_column(name.upper(), justify="right")

    def row(name: str, figures: dict[str, Any], style: str | None = None) -> None:
        table.add_row(name, *(percent(figures.get(k)) for k in names), style=style)

    row(f"test, {result['protocol_settings']['candidates']:,} candidates", test, "bold")
    row("test, full ranking", test["full"])
    row("validation", result["validation"])
    table.add_section()
    row("control: popularity", controls["popularity"])
    row("control: negative counter", controls["counter"])
    return table


def people_table(result: dict[str, Any]) -> Table:
    """A run on all data: there is nothing to show but what it is for."""
    table = Table(
        title=f"{result['method']} on all of {result['data']}, seed {result['seed']}", title_justify="left"
    )
    table.add_column("trained on everything: no figures, recommendations only")
    table.add_row(f"fedrec recommend {result['run'] or 'RUN'} --user ID")
    return table


def leaking(result: dict[str, Any]) -> bool:
    """Whether held-out items reached training, through the protocol or through the run that it started from."""
    return bool(result["leaks"])


def by_test(result: dict[str, Any]) -> bool:
    """Whether the reported round is the one that was best on the test items themselves."""
    return bool(result.get("selected_on_test"))


def about(result: dict[str, Any]) -> str:
    """How the figures came about, in a few lines."""
    rule = result["protocol_settings"]
    asked = result.get("users_tested")
    tested = "" if asked in (None, result["users"]) else f", {asked:,} with test items"
    lines = [
        f"{result['users']:,} users ({result['users_dropped']:,} dropped{tested}), {result['items']:,} items; "
        f"negatives from {rule['negatives_from']} items"
        + (
            ""
            if result["all_data"] or _private(result)
            else f"; selected on {rule.get('select_by', 'validation')} {rule['select_on']}"
        )
    ]
    if said := preset_words(result):
        lines.append(said)
    if result["selected_round"] is not None and result["view"] is None:
        lines.append(
            f"round {result['selected_round']} of {result['rounds']}, each one pass over the data; "
            f"{result['seconds_per_round']:.3f} s a round"
        )
    elif result["selected_round"] is not None:
        lines.append(
            f"round {result['selected_round']} of {result['rounds']}, view {result['view']}, "
            f"engine {result['engine']}"
            + (", never aggregated" if result["local"] else "")
            + "".join(f", channel {stage}" for stage in result["channel"])
            + (f", started from {result['start']}" if result["start"] else "")
        )
        up, down, pace = (
            result[k] for k in ("bytes_up_per_client", "bytes_down_per_client", "clients_per_second")
        )
        lines.append(
            f"{result['seconds_per_round']:.3f} s a round, {pace:,.0f} clients/s; "
            f"{(up or 0) / 1e3:,.1f} kB up and {down / 1e3:,.1f} kB down per client and round"
        )
    if result["beyond"]:
        offered = result["beyond"]
        lines.append(
            f"lists of 10: {percent(offered['coverage@10'])}% of the items offered, "
            f"Gini {offered['gini@10']:.2f}, novelty {offered['novelty@10']:.1f} bits"
        )
    if privacy := result.get("privacy"):
        lines.append(privacy["line"])
    if result["run"]:
        lines.append(f"saved in {result['run']}")
    return "\n".join(lines)


def preset_words(result: dict[str, Any]) -> str:
    """Which preset the settings began with, and what was changed of it; empty where there is none."""
    name, changed = result.get("preset"), result.get("preset_changed")
    if not name:
        return ""
    return f"preset {name}" + (f", but for {', '.join(changed)}" if changed else "")


def _private(result: dict[str, Any]) -> bool:
    """Whether it states an epsilon: the last round is reported then, not one that was selected."""
    return (result.get("privacy") or {}).get("epsilon") is not None


def notes(result: dict[str, Any]) -> list[str]:
    """What a reader of the figures must know."""
    found = []
    counter = result["controls"]["counter"] if result["controls"] else {"leaks": False}
    if counter["leaks"]:
        found.append(
            "This protocol leaks: counting how often an item was NOT drawn as a negative, without any "
            f"model, ranks the test item with AUC {percent(counter['auc'])} (chance is 50). "
            "Use --protocol strict for honest figures."
        )
    if by_test(result):
        found.append(
            "THE ROUND WAS SELECTED ON THE TEST ITEMS, as some papers do: the figures are the best of "
            f"{result['rounds']} looks at the answer, not what to expect. Leave select_by=test out for honest ones."
        )
    if result.get("start_leaks"):
        found.append(
            f"These figures leak: the run began with tables of {result['start']}, which had trained on a held-out item "
            f"of {result['start_leaks']:,} of {result['users']:,} users, or spared it as a negative. Start from a run "
            "on the same data with the same protocol and seed for honest ones."
        )
    if result["clients_dropped"]:
        found.append(
            f"{result['clients_dropped']} client updates were not finite, or had a senseless loss, and were dropped."
        )
    if result["users_short_of_candidates"]:
        found.append(
            f"{result['users_short_of_candidates']:,} users had fewer than "
            f"{result['protocol_settings']['candidates']} candidates."
        )
    if result["stopped"]:
        found.append(result["stopped"] + ".")
    return [*found, *result.get("notes", [])]


def compare_table(title: str, results: Sequence[dict[str, Any]]) -> Table:
    """Several runs, a line each."""
    table = Table(title=title, title_justify="left")
    table.add_column("method", no_wrap=True)
    table.add_column("protocol")
    for heading in ("HR@10", "NDCG@10", "full HR@10", "rounds", "s/round"):
        table.add_column(heading, justify="right")
    for result in results:
        test, pace = result["test"], result["seconds_per_round"]
        table.add_row(
            result["method"],
            result["protocol"],
            percent(test["hr@10"]),
            percent(test["ndcg@10"]),
            percent(test["full"]["hr@10"]),
            str(result["rounds"] or "-"),
            "-" if pace is None else f"{pace:.3f}",
        )
    return table
