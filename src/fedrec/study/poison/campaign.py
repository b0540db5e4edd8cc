"""A federation in which some devices lie: the simulator's loop, with their uploads in place of what they trained."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.clients import Receive
from fedrec.core.messages import Broadcast, Reply, Report
from fedrec.core.ragged import Ids
from fedrec.core.upload import Upload
from fedrec.evaluate.exam import Which
from fedrec.evaluate.metrics import Ranks, hr, ndcg
from fedrec.evaluate.ranking import top_k
from fedrec.simulate.simulation import Simulation
from fedrec.simulate.team import Part, Threads
from fedrec.study.poison.forger import Forger

K = 10


class Lying(Threads):
    """All devices of a simulation, of which some send what a forger makes instead of what they trained.

    They skip their half of the channel: what a stage asks of devices is a claim.
    """

    def __init__(self, honest: Threads, liars: Ids, forger: Forger) -> None:
        super().__init__(honest.clients, honest.exam, honest.replays)
        self.liars, self.forger = liars, forger

    def fit(
        self, broadcast: Broadcast, users: Ids, single: bool, receive: Receive | None, rank: bool
    ) -> Iterator[Part]:
        assert receive is not None

        def without_liars(reply: Reply, block: Ids) -> Reply:
            honest = ~np.isin(reply.users, self.liars)
            assert isinstance(reply.sent, Upload)
            return receive(replace(reply, users=reply.users[honest], sent=reply.sent.only(honest)), block)

        yield from super().fit(broadcast, users, True, without_liars, rank)
        asked = np.isin(self.liars, users)
        if asked.any() and (forged := self.forger.uploads(broadcast)) is not None:
            forged = forged.only(asked[: forged.clients])
            reply = Reply(self.liars[asked], forged, Report(rows=len(forged.items.items)))
            yield Part(receive(reply, self.liars[asked]).sent, [reply.report], (0.0, 0.0))


@dataclass
class Poisoned(Simulation):
    """A simulation with devices that lie."""

    liars: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    way: str = ""
    target: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.liars):
            made = importlib.import_module(f"fedrec.study.poison.{self.way}").Forger
            negatives = self.split.protocol.negatives_per_positive
            forger = made(
                self.method, self.server.catalog, self.target, len(self.liars), self.seed, negatives
            )
            self.team = Lying(self.here, self.liars, forger)

    @property
    def honest(self) -> NDArray[np.bool_]:
        kept = np.ones(self.split.n_users, np.bool_)
        kept[self.liars] = False
        return kept

    def figures(self, who: NDArray[np.bool_]) -> dict[str, float]:
        """After the last round, of these people: exposure of the target, and how well they are served."""
        assert self.selected is not None
        moment = self.selected.moment
        found: dict[str, float] = {}
        whiches: tuple[Which, ...] = ("valid", "test")
        for which in whiches:
            ranks = of_some(self.ranks(moment, which), who)
            found |= {f"{which} hr": hr(ranks, K), f"{which} ndcg": ndcg(ranks, K)}
        trained = self.split.trained
        met = np.zeros(self.split.n_users, np.bool_)
        met[np.repeat(np.arange(len(met)), np.diff(trained.indptr))[trained.items == self.target]] = True
        asked = np.flatnonzero(who & ~met)
        lists, _ = top_k(self.scorer(moment), trained, K, asked, threads=self.threads)
        return {**found, "er": float((lists == self.target).any(axis=1).mean())}


def of_some(ranks: Ranks, who: NDArray[np.bool_]) -> Ranks:
    """Ranks of these users' items."""
    kept = who if ranks.users is None else who[ranks.users]
    users = np.flatnonzero(who) if ranks.users is None else ranks.users[kept]
    ahead, ties, among = (values[kept] for values in ranks)
    return Ranks(ahead, ties, among, users)


def rare(trained: NDArray[np.int32], n_items: int, rng: np.random.Generator) -> int:
    """An item that few have met, but some: what somebody would want to promote."""
    counts = np.bincount(trained, minlength=n_items)
    some = np.flatnonzero(counts)
    few = some[counts[some] <= np.quantile(counts[some], 0.3)]
    return int(rng.choice(few))
