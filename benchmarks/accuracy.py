"""Accuracy of every method, and docs/accuracy.md from it. What is finished is reused: stop it at any time.

python benchmarks/accuracy.py                      # everything (hours)
python benchmarks/accuracy.py --data ml-100k --protocol paper --method mf --method ncf
python benchmarks/accuracy.py --page-only          # write the page from what is finished
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fedrec.report.accuracy import page
from fedrec.study.compare import Case, compare, finished

YARDSTICKS = ["popularity", "itemknn", "ease", "ials", "mf", "ncf"]
FUSED = ["fedmf", "pfedrec", "fedrecon", "fedrap", "fedals", "fcf"]
NEURAL = ["fedncf", "metamf", "fedpergnn", "fedrecgel"]
BASES = ("fedmf", "fedncf", "fedrecon", "pfedrec")
WRAPPED = [f"{base}+{wrapper}" for wrapper in ("dualper", "gel", "plgc") for base in BASES]
ELSEWHERE = ("ml-1m", "amazon-video", "filmtrust", "lastfm-2k")
ALONE = ("fedmf", "fedncf", "pfedrec")  # also never aggregated, as a control
TUNED = {"fedncf+plgc": {"lr": 5.0, "eta": 4.0}}  # with FedNCF's own rates it runs away; found on validation
RADII = {"filmtrust": (0.02, 0.0), "amazon-video": (0.2, 0.01)}  # FedRecGEL's; elsewhere its defaults


def radii(private: float, shared: float) -> dict[str, float]:
    return {"gel.radius_private": private, "gel.radius_shared": shared}


def cases() -> list[Case]:
    small = [*YARDSTICKS, *FUSED, *NEURAL, *WRAPPED]
    found = []
    for protocol in ("paper", "strict"):
        found += [Case(m, "ml-100k", protocol, settings=TUNED.get(m, {})) for m in small]
        local = {"local": True}
        found += [Case(m, "ml-100k", protocol, options=local, label=f"{m}, local only") for m in ALONE]
    for data in ELSEWHERE:
        found += [Case(m, data) for m in (*YARDSTICKS, *FUSED, "fedncf")]
        settings = radii(*RADII[data]) if data in RADII else {}
        found.append(Case("fedrecgel", data, settings=settings))
        if data in RADII:
            found.append(Case("fedrecgel", data, settings=radii(0, 0), label="fedrecgel, radius 0"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("runs/accuracy"), help="folder of finished runs")
    parser.add_argument("--page", type=Path, default=Path("docs/accuracy.md"))
    parser.add_argument("--data", action="append", help="these data sets only; repeatable")
    parser.add_argument("--protocol", action="append", help="these protocols only; repeatable")
    parser.add_argument("--method", action="append", help="these methods only; repeatable")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--slow", type=float, default=300, help="seconds of a run beyond which one seed is enough"
    )
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--page-only", action="store_true", help="train nothing, write the page")
    asked = parser.parse_args()
    wanted = [
        case
        for case in cases()
        if (not asked.data or case.data in asked.data)
        and (not asked.protocol or case.protocol in asked.protocol)
        and (not asked.method or case.method in asked.method)
    ]
    if not wanted:
        parser.error("nothing here is called that: see cases() for methods, data sets and protocols")
    if not asked.page_only:
        compare(
            wanted, asked.results, asked.seeds, threads=asked.threads, slow=asked.slow,
            say=lambda text: print(text, flush=True),
        )  # fmt: skip
    done = finished(cases(), asked.results, asked.seeds, slow=asked.slow)
    if not done:
        parser.error(f"nothing is finished in {asked.results}: {asked.page} stays as it is")
    asked.page.write_text(page(done), encoding="utf-8")
    print(f"{sum(len(line.results) for line in done)} runs on {asked.page}")


if __name__ == "__main__":
    main()
