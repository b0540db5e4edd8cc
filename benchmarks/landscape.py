"""Does `gel` find flatter minima? How far the loss rises around FedRecGEL's models, with and without its radii.

python benchmarks/landscape.py --data filmtrust --private 0.02 --shared 0      # about ten minutes
"""

from __future__ import annotations

import argparse

import fedrec
from fedrec.study.landscape import landscape


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", default="filmtrust")
    parser.add_argument("--private", type=float, default=0.02, help="radius of what stays on the device")
    parser.add_argument("--shared", type=float, default=0.0, help="radius of what is shared")
    parser.add_argument(
        "--radius", type=float, default=1.0, help="half the width of the plane, in row lengths"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=None)
    asked = parser.parse_args()
    print("| seed | radii | loss | rise at the rim | test HR@10 |\n|---:|---|---:|---:|---:|")
    for seed in range(asked.seeds):
        for private, shared in ((asked.private, asked.shared), (0.0, 0.0)):
            settings = {"gel.radius_private": private, "gel.radius_shared": shared}
            run = fedrec.run(
                "fedrecgel", asked.data, "strict", asked.rounds, seed, settings=settings,
                threads=asked.threads, eval_every=2,
            )  # fmt: skip
            around = landscape(run, asked.radius)
            figures = f"{around.centre:.4f} | {around.rise:.4f} | {100 * run.test['hr@10']:.1f}"
            print(f"| {seed} | {private:g}, {shared:g} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
