"""The hit rate by how popular the test item is: does a method find what few know?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedrec.figures.bins import by_bins
from fedrec.figures.theme import Chart


def popularity(data: Any, methods: Sequence[str] | None = None) -> Chart:
    """``data`` as ``by_bins`` takes it; a bin is a range of training interactions of the test item."""
    return by_bins(data, "users who trained on the test item", methods=methods)
