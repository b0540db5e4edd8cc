"""``fedmf+dualper`` and ``pfedrec`` are one method."""

from __future__ import annotations

import fedrec
from fedrec.data.interactions import Interactions
from fedrec.testing import different


def test_fedmf_with_dualper_is_pfedrec_to_the_bit(small: Interactions) -> None:
    names = ("fedmf+dualper", "pfedrec", "fedmf")
    wrapped, paper, base = (fedrec.run(name, small, rounds=3, settings={"dim": 8}) for name in names)
    assert wrapped.federated is not None
    assert paper.federated is not None
    assert base.federated is not None
    assert different(wrapped.federated.moment, paper.federated.moment) == []
    assert wrapped.ranks.equals(paper.ranks)
    assert wrapped.result["view"] == paper.result["view"] == "own"
    assert different(base.federated.moment, paper.federated.moment), "one joint step is another method"
