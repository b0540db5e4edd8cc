"""Nobody lies: the same people only stay away. What the others lose then is no work of an attack."""

from __future__ import annotations

from dataclasses import dataclass

from fedrec.core.messages import Broadcast
from fedrec.study.poison.forger import Forger as Base

NAME = "absent"


@dataclass
class Forger(Base):
    def uploads(self, told: Broadcast) -> None:
        return None
