"""``fedmf+dualper`` and ``pfedrec`` are one method."""

from __future__ import annotations

import fedrec
from fedrec.data.interactions import Interactions
from fedrec.testing import different


def test_fedmf_with_dualper_is_pfedrec_to_the_bit(small: Interactions) -> None:
    names = ("fedmf+dualper", "pfedrec", "fedmf")
    wrapped, paper, base = (fedrec.run(name, small, rounds=3, settings={"dim": 8}) for name in names)
    assert wrapped.federation is not None
    assert paper.federation is not None
    assert base.federation is not None
    assert different(wrapped.federation.state, paper.federation.state) == []
    assert wrapped.ranks.equals(paper.ranks)
    assert wrapped.result["view"] == paper.result["view"] == "own"
    assert different(base.federation.state, paper.federation.state), "one joint step is another method"
