"""Which stages may follow which, and whether together they state an epsilon."""

from __future__ import annotations

from collections.abc import Sequence

from fedrec.channel.stage import Stage
from fedrec.core.errors import FedrecError


def check_order(stages: Sequence[Stage]) -> None:
    """Refuses what would void a guarantee: noise that clipping comes after, or a second bound or noise."""
    names = [stage.name for stage in stages]
    for kind in ("clip", "gaussian", "local"):
        if names.count(kind) > 1:
            raise FedrecError(f"--channel {kind} is there twice: leave one of them out")
    for place, stage in enumerate(stages):
        before = names[:place]
        if stage.name in ("clip", "cap"):
            for other in stages[:place]:
                if other.noises:
                    raise FedrecError(
                        f"--channel {other.name} stands before {stage.name}: noise that is clipped afterwards states "
                        f"no epsilon, so give {stage.name} first"
                    )
        if stage.name in ("gaussian", "local") and "clip" not in before:
            raise FedrecError(
                f"--channel {stage.name} needs clip before it: without a bound on one device's upload no noise states "
                f"an epsilon, so give --channel clip=1 --channel {stage.name}=…"
            )
        if stage.name == "quantize" and any(other.guarantees and other.at_device for other in stages[:place]):
            raise FedrecError(
                "--channel quantize stands behind noise of devices and would cut it: give quantize before, or fixed"
            )
    _check_defences(stages)
    noise, fixed = (
        next((s for s in stages if s.name in kind), None) for kind in (("gaussian",), ("fixed", "secure"))
    )
    if noise and fixed and noise.at_device and noise.bits != fixed.bits:  # type: ignore[attr-defined]
        raise FedrecError(
            f"--channel gaussian has steps of 2^-{noise.bits} and {fixed.name} of 2^-{fixed.bits}: give "  # type: ignore[attr-defined]
            "both the same bits"
        )
    if "laplace" in names and states_epsilon(stages):
        raise FedrecError(
            "--channel laplace adds to every upload what nothing bounds, so that no epsilon holds beside it: leave "
            "laplace out"
        )
    if "gaussian" in names and "local" in names:
        raise FedrecError("--channel gaussian and local are two guarantees: leave one of them out")


def _check_defences(stages: Sequence[Stage]) -> None:
    """What looks at uploads needs uploads to look at, and moves a sum by more than one user's bound."""
    for stage in (stage for stage in stages if stage.looks):
        needs = f"totals of {stage.needs} groups" if stage.needs > 1 else "single uploads"
        for other in stages:
            if other.hides_single:
                raise FedrecError(
                    f"channel '{stage.name}' needs {needs}, and '{other.name}' shows the server one sum: leave one of "
                    "them out"
                )
            if other.guarantees:
                raise FedrecError(
                    f"channel '{stage.name}' weighs uploads by one another, so that '{other.name}' can state no "
                    "epsilon: leave one of them out"
                )
        changing = next((other for other in stages if other.at_device), None)
        if stage.exact and changing:
            raise FedrecError(
                f"channel '{stage.name}' knows what devices compute, and '{changing.name}' changes that: leave one of "
                "them out"
            )
    if sum(stage.needs > 1 for stage in stages) > 1:
        raise FedrecError("two stages compare groups of devices: leave one of them out")


def states_epsilon(stages: Sequence[Stage]) -> bool:
    """Whether what the server learns is differentially private: every upload is bounded, then noise is added."""
    return any(stage.guarantees for stage in stages)


def why_none(stages: Sequence[Stage], local: bool = False) -> str:
    """Why a run states no epsilon."""
    if local:
        return "nothing is aggregated, so nothing leaves the devices"
    noisy = [stage.name for stage in stages if stage.noises]
    if noisy:
        return f"{noisy[0]} without clip: one user can move a sum by any amount"
    bounded = any(stage.name == "clip" for stage in stages)
    return (
        "uploads are clipped but no noise is added" if bounded else "no noise is added to what devices send"
    )
