"""Flower carries the messages: a SuperLink, nodes that fetch their questions, and two small apps.

Everything here needs the extra ``flower``. It uses modules of flwr that are not its public surface, so the minor
version is held (``>=1.41,<1.42``), and a test checks what is used of them.
"""

from __future__ import annotations

import os

from fedrec.core.errors import FedrecError

RECORD, FIELD = "fedrec", "message"  # one bytes field: arrays of Flower's own would each travel by themselves
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


def needed() -> None:
    """Says what to install, where Flower is missing; nothing is ever reported to anybody."""
    os.environ.update(QUIET)
    try:
        import flwr  # noqa: F401
    except ImportError:
        raise FedrecError("deploying needs Flower: pip install 'fedrec[flower]'") from None
