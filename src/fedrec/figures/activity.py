"""The hit rate by how active a user is: do methods serve those who say little?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.bins import by_bins
from fedrec.figures.theme import Chart


def activity(data: Any, methods: Sequence[str] | None = None) -> Chart:
    """``data`` as ``by_bins`` takes it; a bin is a range of training items per user."""
    return by_bins(data, "training items of a user", methods=methods)
