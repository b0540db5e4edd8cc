"""Made-up people who met the target and random things, and are honest otherwise: the plainest shilling attack."""

from __future__ import annotations

from dataclasses import dataclass, field

from fedrec.clients.clients import Clients
from fedrec.core.messages import Broadcast
from fedrec.core.upload import Upload
from fedrec.study.poison.forger import PASSES
from fedrec.study.poison.forger import Forger as Base

NAME = "random"


@dataclass
class Forger(Base):
    people: Clients | None = field(init=False, default=None)

    def honestly(self, told: Broadcast) -> Upload:
        if self.people is None:
            self.people = self.devices([self.fillers() for _ in range(self.count)])
            self.people.join(told, PASSES)
        return self.sent(self.people, told)

    def uploads(self, told: Broadcast) -> Upload:
        return self.honestly(told)
