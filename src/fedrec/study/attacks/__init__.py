"""What can be found out from what a federation shows: attacks, one file each, strongest adversaries first asked.

Each has ``NAME``, ``SEES``, ``why_not(scene)`` (a sentence, or nothing where it applies) and ``attack(scene)``.
"""

from __future__ import annotations

# In the order of the table: single uploads, sums, released tables.
ATTACKS = (
    "touched",
    "sign",
    "senders",
    "equation",
    "imia",
    "differencing",
    "presence",
    "interaction",
    "user",
)
