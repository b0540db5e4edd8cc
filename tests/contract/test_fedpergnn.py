"""FedPerGNN keeps the contract; its third party and what hides uploads do what the paper says."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from fedrec.core.errors import FedrecError
from fedrec.core.federated import Federated
from fedrec.data.split import split
from fedrec.engine.expansion import neighbours
from fedrec.engine.round import Federation
from fedrec.methods import make
from fedrec.methods.fedpergnn import FedPerGNN
from fedrec.testing import MethodContract, Spy

# 40 clients hide one another less than thousands do: so little noise still leaves something to learn.
METHOD = FedPerGNN(dim=8, neighbours=5, pseudo=10, noise=0.02)


class TestFedPerGNN(MethodContract):
    method: ClassVar[Federated] = METHOD

    def test_neighbours_share_items_and_are_no_more_than_asked_for(self) -> None:
        parts = split(self.world)
        near = neighbours(parts, 0, 5)
        for user in range(parts.n_users):
            mine = near.of(user)
            assert len(mine) == len(set(mine)) == 5
            assert user not in mine
            assert all(other % 2 == user % 2 for other in mine), "only users of one taste share items"

    def test_a_neighbour_changes_what_a_client_ranks_with(self) -> None:
        federation = Federation(METHOD, split(self.world))
        federation.play(evaluate=False)
        engine, state, user = federation.engine, federation.state, np.array([3])
        near, vectors = neighbours(federation.split, 0, 5).of(3), state.private["user"]

        def ranks_with(other: int, shift: float) -> np.ndarray:
            moved = vectors.copy()
            moved[other] += shift
            changed = replace(state, private={**state.private, "user": moved})
            return engine.held(changed, 1, user, "global").private["vector"]

        for other in range(len(vectors)):
            same = np.array_equal(ranks_with(other, 0.0), ranks_with(other, 1.0))
            assert same == (other not in near and other != 3)

    def test_uploads_hide_among_pseudo_items_and_are_bounded_before_the_noise(self) -> None:
        spy = Spy()
        quiet = METHOD.model_copy(update={"noise": 0.0})
        federation = Federation(quiet, split(self.world), channel=[spy])
        federation.play(evaluate=False)
        for upload in spy.seen:
            for values in (*upload.rows.values(), *upload.dense.values()):
                assert np.abs(values).max() <= METHOD.clip + 1e-7
        with_less = FedPerGNN(dim=8, neighbours=5, pseudo=0)
        bare = Federation(with_less, split(self.world)).play(evaluate=False)
        assert federation.play(evaluate=False).bytes_up > bare.bytes_up

    def test_wrappers_are_refused_in_a_sentence(self) -> None:
        for name in ("dualper", "gel"):
            with pytest.raises(FedrecError, match=f"{name} does not go over fedpergnn: its clients"):
                make(f"fedpergnn+{name}")
