"""``fedmf+dualper`` and ``pfedrec`` are one method."""

from __future__ import annotations

import numpy as np

import fedrec
from fedrec.data.interactions import Interactions
from fedrec.methods import make
from fedrec.testing import different, scores


def test_fedmf_with_dualper_is_pfedrec_to_the_bit(small: Interactions) -> None:
    names = ("fedmf+dualper", "pfedrec", "fedmf")
    wrapped, paper, base = (fedrec.run(make(name, {"dim": 8}), small, rounds=3) for name in names)
    assert wrapped.federated is not None
    assert paper.federated is not None
    assert base.federated is not None
    assert different(wrapped.federated.moment, paper.federated.moment) == []
    assert wrapped.ranks.equals(paper.ranks)
    assert wrapped.result["view"] == paper.result["view"] == "own"
    assert different(base.federated.moment, paper.federated.moment), "one joint step is another method"


def test_a_mild_device_sends_all_of_its_move_and_ranks_with_a_share_of_it(small: Interactions) -> None:
    """Shared tables do not hang on ``mild``; with 0 a device ranks with the rows that it downloaded."""
    runs = {m: fedrec.run(make("pfedrec", {"dim": 8, "mild": m}), small, rounds=1) for m in (0, 0.1, 1)}
    tables = {m: run.federated.server.state.shared["items"] for m, run in runs.items() if run.federated}
    assert (tables[0] == tables[1]).all()
    assert (tables[0.1] == tables[1]).all()
    given = {
        m: scores(run.federated, run.federated.selected.moment, "own")
        for m, run in runs.items()
        if run.federated
    }
    assert np.allclose(given[0.1] - given[0], 0.1 * (given[1] - given[0]), atol=1e-4)
    assert not np.allclose(given[0.1], given[0], atol=1e-4)
    wrapped = fedrec.run(make("fedmf+dualper", {"dim": 8, "mild": 0.1}), small, rounds=1)
    assert wrapped.ranks.equals(runs[0.1].ranks)
