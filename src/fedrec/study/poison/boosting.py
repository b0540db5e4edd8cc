"""Explicit boosting: made-up people send the target's row alone, far longer than any honest upload.

The form in which Zhang et al., "PipAttack" (WSDM 2022), compare against it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedrec.core.messages import Broadcast
from fedrec.core.upload import Upload
from fedrec.study.poison import random

NAME = "boosting"


@dataclass
class Forger(random.Forger):
    def uploads(self, told: Broadcast) -> Upload:
        return self.lengthened(self.honestly(told))
