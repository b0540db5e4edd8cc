"""Devices that lie to promote an item, one way a file; and what the server can do about it.

Each way has ``NAME`` and ``Forger``, which is told every broadcast and makes the uploads of the devices that lie.
"""

from __future__ import annotations

WAYS = ("absent", "random", "boosting", "popular", "matching")
