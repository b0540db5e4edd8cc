"""``make demo``: the main job on made data: a small comparison, its table, and a report to look at."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from rich.progress import track

import fedrec
from fedrec.cli.terminal import any_letter, console, say
from fedrec.figures.tables import compare_table
from fedrec.report.build import report

METHODS = {"popularity": None, "ease": None, "fedmf": 60, "pfedrec": 60, "fedals": 10}
MODELS = 2  # looked into for the report: enough to see what is there


def main() -> None:
    any_letter()
    data, bar = fedrec.load("demo"), console(stderr=True)
    say(f"demo is a made world: {data.n_users:,} users, {data.n_items:,} items, {len(data):,} interactions")
    folder = _new_folder()
    jobs = [(method, protocol) for protocol in ("strict", "paper") for method in METHODS]
    results = []
    for method, protocol in track(jobs, "training", console=bar, transient=True, disable=not bar.is_terminal):
        out = folder / protocol / method
        results.append(fedrec.run(method, data, protocol, METHODS[method], out=out).result)
    console().print(compare_table("demo, seed 0, test figures in percent", results))
    counter = max((r["controls"]["counter"] for r in results), key=lambda control: control["auc"])
    say(
        "Under 'paper' the test item leaks into training: the negative counter, which has no model at all, "
        f"reaches AUC {100 * counter['auc']:.1f} there (chance is 50). Trust 'strict'."
    )
    with bar.status("drawing the report"):
        made = report(folder / "strict", folder / "report.html", baseline="fedmf", models=MODELS)
    say(
        f"The report, with figures: open {made.path.resolve()} in a browser.\n"
        "Next: fedrec run pfedrec --rounds 100, fedrec report runs/…, fedrec methods, fedrec data list"
    )


def _new_folder() -> Path:
    """What an earlier demo left stays."""
    names = (f"demo-{n}" for n in count(1))
    return next(path for name in names if not (path := Path("runs") / name).exists())


if __name__ == "__main__":
    main()
