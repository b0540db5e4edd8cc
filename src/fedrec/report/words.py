"""The summary in words, written from the figures: differences with their tests, and no adjectives."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec.report.groups import CERTAIN, Case, Group


def summary(group: Group) -> list[str]:
    """Sentences, the main one first."""
    best = group.cases[0]
    said = [_best(group, best), *_against(group), *_control(group)]
    alone = [case.label for case in group.cases if len(case.entries) == 1]
    if alone:
        what = "All figures are" if len(alone) == len(group.cases) else f"The figures of {listed(alone)} are"
        said.append(f"{what} of a single seed: how much they vary from seed to seed is not known.")
    return said


def _best(group: Group, best: Case) -> str:
    ndcg, hr = spread(best, "ndcg@10"), spread(best, "hr@10")
    seeds = (
        f" (percent, mean ± standard deviation over {len(best.entries)} seeds)"
        if len(best.entries) > 1
        else " (percent)"
    )
    if len(group.cases) == 1:
        where = f"On {group.data} under the protocol {group.protocol}"
        return f"{where}, {best.label} has an NDCG@10 of {ndcg} and an HR@10 of {hr}{seeds}."
    central = " It is a centralised yardstick that sees everyone's data." if best.central else ""
    federated = next((case for case in group.cases if not case.central), None)
    if central and federated:
        central += (
            f" Of the federated methods, {federated.label} has the highest: {spread(federated, 'ndcg@10')}."
        )
    return (
        f"On {group.data} under the protocol {group.protocol}, {best.label} has the highest NDCG@10 of "
        f"{len(group.cases)} methods, {ndcg}, with an HR@10 of {hr}{seeds}.{central}"
    )


def _against(group: Group) -> list[str]:
    """Who is above, below and not told apart from the baseline."""
    base, found = group.baseline, group.differences
    if base is None or not found:
        return []
    users = next(iter(found.values())).users
    test = (
        f"Wilcoxon's signed-rank test over {users:,} users, corrected by Holm for {count(len(found), 'test')}"
    )
    above = [f"{n} ({signed(d.mean)})" for n, d in found.items() if d.certain and d.mean > 0]
    below = [f"{n} ({signed(d.mean)})" for n, d in found.items() if d.certain and d.mean <= 0]
    same = [f"{n} ({signed(d.mean)}, {p_value(d.p)})" for n, d in found.items() if not d.certain]
    said = []
    for side, some in (("higher", above), ("lower", below)):
        if some:
            said.append(
                f"{listed(some)} {'is' if len(some) == 1 else 'are'} {side} by more than chance explains"
            )
    if same:
        said.append(f"{listed(same)} {'differs' if len(same) == 1 else 'differ'} no more than chance would")
    against = f"Against {base.label}, the baseline ({base.mean('ndcg@10'):.2f})"
    return [f"{against}, {'; '.join(said)}. Differences are points of NDCG@10, tested at {CERTAIN}: {test}."]


def _control(group: Group) -> list[str]:
    controls = group.result["controls"]
    level = 100 * controls["popularity"]["ndcg@10"]
    below = [
        case.label
        for case in group.cases
        if case.mean("ndcg@10") < level and case.first.result["method"] != "popularity"
    ]
    said = f"Recommending what is popular, to everyone the same, reaches an NDCG@10 of {level:.2f}"
    first = (
        f"{said}: {listed(below)} {'is' if len(below) == 1 else 'are'} below that." if below else f"{said}."
    )
    return [first, leak(group)]


def leak(group: Group) -> str:
    """What the lie detector says."""
    worst = group.counter
    if worst["auc"] is None:
        return "Whether the protocol leaks could not be measured: no user had candidates."
    area = f"{100 * worst['auc']:.1f}" + (
        "" if worst["auc_se"] is None else f" ± {100 * worst['auc_se']:.1f}"
    )
    counter = (
        f"the negative counter, which has no model, ranks the test item with an AUC of {area} (chance is 50)"
    )
    started = [e for e in group.entries if e.result.get("start_leaks")]
    if worst["leaks"]:
        return (
            f"This protocol leaks the test item into training: {counter}. These figures are not honest ones."
        )
    if started:
        return (
            f"{len(started)} of the runs started from a run that had met held-out items: their figures leak."
        )
    return f"No leak is found: {counter}."


def spread(case: Case, name: str, full: bool = False) -> str:
    std = case.std(name, full)
    return f"{case.mean(name, full):.2f}" + ("" if std is None else f" ± {std:.2f}")


def p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def signed(value: float, digits: int = 2) -> str:
    """With a sign, and a minus that reads as one."""
    return f"{value:+.{digits}f}".replace("-", "−")


def count(n: int, what: str) -> str:
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}" if len(names) > 1 else "".join(names)
