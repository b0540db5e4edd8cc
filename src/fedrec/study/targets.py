"""What can be reproduced: tables and figures of the papers, as the runs that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fedrec.core.errors import FedrecError, nearest
from fedrec.core.federated import Federated
from fedrec.core.method import ROUNDS
from fedrec.core.slots import Catalog
from fedrec.methods import make, usual_clients
from fedrec.methods.central.base import CentralInRounds
from fedrec.runs.presets import PAPER
from fedrec.study import looks
from fedrec.study.case import Case, Line
from fedrec.study.published import Published, published, with_noise

SMALL = ("ml-100k",)
FILMTRUST = ("filmtrust",)  # the smallest of FedRecGEL's own
PFEDREC_DATA = ("ml-100k", "ml-1m", "lastfm-2k", "amazon-video")
TABLE_2 = ("ncf", "mf", "fedmf", "fedncf", "fedrecon", "metamf", "fedpergnn", "pfedrec")
STRENGTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
RADII = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
BOTH = ("paper", "strict")
PAPERS = "the paper's radii"
# Interactions, to judge the time by; and seconds of a run for 100,000 of them on one core.
SIZES = {"ml-100k": 1e5, "ml-1m": 1e6, "lastfm-2k": 1.86e5, "amazon-video": 6.4e4, "filmtrust": 3.5e4}
LONGEST = 180.0  # seconds of a run that --quick has time for
TRIED = 30.0  # seconds in which it is seen that a run would take longer
COMPILED, PLAIN, PASSES, AT_ONCE = 15.0, 350.0, 40.0, 5.0


@dataclass(frozen=True)
class Target:
    """A table or figure of a paper."""

    name: str
    title: str
    source: str
    methods: Sequence[tuple[str, str, dict[str, Any], dict[str, Any]]]  # method, label, settings, options
    data: Sequence[str] = SMALL
    quick_data: Sequence[str] = SMALL
    protocols: Sequence[str] = BOTH
    seeds: int = 5
    look: Callable[[Sequence[Line]], dict[str, looks.Look]] | None = (
        None  # at what was learned, beside the figures
    )
    note: str = ""

    def cases(self, quick: bool) -> list[Case]:
        return [
            Case(method, data, protocol, settings, {"preset": PAPER, **options}, label)
            for data in (self.quick_data if quick else self.data)
            for protocol in self.protocols
            for method, label, settings, options in self.methods
        ]

    @property
    def models(self) -> bool:
        """Whether it looks at what was learned, not at figures alone."""
        return self.look is not None and self.look is not looks.convergence

    def published(self, case: Case) -> Published | None:
        if self.name == "pfedrec-table-4":
            return with_noise(case.data_name, _strength(case)) if case.protocol_name == "paper" else None
        return (
            None
            if case.label not in ("", PAPERS)
            else published(case.method, case.data_name, case.protocol_name)
        )

    def minutes(self, quick: bool, cores: int = 2) -> float:
        """About how long it takes, all of it."""
        each = [_seconds(case) for case in self.cases(quick)]
        if quick:  # what takes too long is left out after its first rounds
            return sum(TRIED if seconds > LONGEST else seconds for seconds in each) / cores / 60
        return sum(each) * self.seeds / cores / 60


def _plain(*methods: str) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    return [(method, "", {}, {}) for method in methods]


def _noisy(strength: float) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    options = {"channel": [f"laplace={strength:g}"]} if strength else {}
    return "pfedrec", f"pfedrec, noise {strength:g}", {}, options


def _strength(case: Case) -> float:
    return float(case.label.rpartition(" ")[2])


def _radius(
    private: float, shared: float, label: str = ""
) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    settings = {"gel.radius_private": private, "gel.radius_shared": shared}
    return "fedrecgel", label or f"radii {private:g}, {shared:g}", settings, {}


def _plgc(redundancy: float) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    return (
        "fedmf+plgc",
        f"fedmf+plgc, redundancy {redundancy:g}",
        {"plgc.redundancy": redundancy},
        {"eval_every": 5},
    )


ZHANG, LI = "Zhang et al., IJCAI 2023", "Li et al., ICLR 2024 (FedRAP)"
YU, ZHAO = "Yu et al., WWW 2026 (FedRecGEL)", "Zhao et al., arXiv 2508.19591, 2025 (PLGC, our reading)"
KDD = "Zhang et al., KDD 2024 (GPFedRec)"
TARGETS = {
    target.name: target
    for target in (
        Target("pfedrec-table-2", "PFedRec, Table 2: all methods", ZHANG, _plain(*TABLE_2), PFEDREC_DATA),
        Target(
            "pfedrec-table-3", "PFedRec, Table 3: dual personalization over other methods", ZHANG,
            _plain(*(f"{base}{over}" for base in ("fedmf", "fedncf", "fedrecon") for over in ("", "+dualper"))),
            PFEDREC_DATA,
        ),
        Target(
            "pfedrec-table-4", "PFedRec, Table 4: Laplace noise on uploads", ZHANG,
            [_noisy(strength) for strength in STRENGTHS], PFEDREC_DATA,
            note="Noise without clipping states no ε, and hides little: see docs/protocols.md.",
        ),
        Target(
            "pfedrec-figure-2", "PFedRec, Figure 2: item rows as a client sees them", ZHANG,
            _plain("pfedrec"), seeds=1, look=looks.embeddings,
        ),
        Target(
            "pfedrec-figure-3", "PFedRec, Figure 3: own, global and another client's item rows", ZHANG,
            _plain("pfedrec"), PFEDREC_DATA, seeds=3, look=looks.views,
        ),
        Target("fedrap-main", "FedRAP, main row", LI, _plain("fedmf", "pfedrec", "fedrap"), ("ml-100k", "ml-1m")),
        Target(
            "fedrap-convergence", "FedRAP, convergence", LI, _plain("fedmf", "pfedrec", "fedrap"),
            seeds=3, look=looks.convergence,
        ),
        Target(
            "fedrap-tsne", "FedRAP, t-SNE of item rows", LI, _plain("fedrap"), seeds=1, look=looks.embeddings
        ),
        Target(
            "gpfedrec-main", "GPFedRec, main row", KDD, _plain("fedmf", "fedncf", "pfedrec", "gpfedrec"),
            note="Its server keeps a table of every client: ML-1M and Lastfm-2K would need more than 1 GB.",
        ),
        Target(
            "fedrecgel-landscapes", "FedRecGEL, Figures 1 and 3: loss landscapes", YU,
            [_radius(0.02, 0.0, PAPERS), _radius(0.0, 0.0, "radius 0")],
            FILMTRUST, FILMTRUST, ("strict",), 3, looks.landscapes,
        ),
        Target(
            "fedrecgel-radius", "FedRecGEL, Figure 2: radii", YU,
            [_radius(radius, radius) for radius in RADII], FILMTRUST, FILMTRUST, ("strict",), 3,
        ),
        Target(
            "plgc-spectra", "PLGC: singular values of item tables", ZHAO,
            [*_plain("fedmf", "fedrap"), *(_plgc(weight) for weight in (0.0, 0.001, 0.1))],
            seeds=1, look=looks.spectra,
        ),
    )
}  # fmt: skip


def target(name: str) -> Target:
    if name not in TARGETS:
        raise FedrecError(f"there is no target '{name}': {nearest(name, TARGETS)}")
    return TARGETS[name]


def _seconds(case: Case) -> float:
    """A guess by what computes it and by the size of the data."""
    method = make(case.method, case.settings)
    size = SIZES[case.data_name] / 1e5
    if not isinstance(method, Federated):
        return size * (PASSES if isinstance(method, CentralInRounds) else AT_ONCE)
    rounds = case.options.get("rounds", ROUNDS) / ROUNDS
    if method.kernel(Catalog(1682, 943)) is not None:
        return size * COMPILED * rounds
    return size * PLAIN * rounds * max(usual_clients(case.method) or 1.0, 0.3)  # ranking is for everyone
