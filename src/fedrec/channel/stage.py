"""The channel: stages that an upload passes on its way from a device to the server.

A stage has a half on the device, which sees one client's upload with randomness of its own, and a half on the
server, which sees sums; halves on the server are undone in reverse. Where every client does the same by itself,
a simulator may draw it at once for the sum: a shortcut of its own, with the same distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedrec.channel.bytes import NUMBER
from fedrec.core.errors import FedrecError, nearest
from fedrec.core.rng import generator
from fedrec.core.settings import Settings
from fedrec.core.upload import Total, Upload, Uploads, joined

Rng = np.random.Generator
Draw = Callable[..., Rng]  # a generator of what it is handed: a seed, a name, a round
NOTHING_DRAWN = generator(0, "nothing")  # what a stage that draws nothing is handed


class Stage(Settings):
    """One thing that happens to uploads."""

    name: ClassVar[str]
    hides_single: ClassVar[bool] = False  # the server sees nothing but sums behind it
    relation: ClassVar[str] = "one user added or removed"  # what its guarantee cannot tell apart
    noises: ClassVar[bool] = False  # it adds noise
    in_steps: ClassVar[bool] = False  # its shortcut can add whole steps to sums in fixed point
    guarantees: ClassVar[bool] = False  # behind clip its noise states an epsilon, see ``multiplier``
    looks: ClassVar[bool] = False  # the server looks at single uploads, or at totals of groups: a defence
    exact: ClassVar[bool] = False  # a defence that needs uploads as devices computed them
    draws: ClassVar[bool] = True  # at random on each device; a stage that does not takes many clients at once

    @property
    def at_device(self) -> bool:
        """Whether it has a half on the device."""
        return True

    def on_device(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        """What a device does to its upload before it leaves."""
        return upload

    def on_server(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        """What the server does to the sum."""
        return total

    def on_uploads(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        """What a defence does to the single uploads of a round, before they are added up."""
        return upload

    def unsuited(self, uploads: Uploads) -> str:
        """Why a defence can do nothing with uploads of this kind; "" where it can."""
        return ""

    @property
    def needs(self) -> int:
        """Of how many groups of devices a defence needs the totals."""
        return 1

    def on_totals(self, totals: Sequence[Total]) -> Total:
        """What a defence makes of the totals of groups."""
        raise FedrecError(f"channel '{self.name}' compares no groups")

    def deviation(self, uploads: Uploads, name: str) -> float:
        """The standard deviation of the noise that it leaves in each number of a sum."""
        return 0.0

    def multiplier(self, radius: float) -> float:
        """Its noise over what one user can add to a sum, where that is clipped to this norm."""
        raise FedrecError(f"channel '{self.name}' states no epsilon")

    def excess(self, uploads: Uploads, name: str) -> float:
        """1 over the variance in steps² of noise that comes in whole steps, in a round of share 1."""
        return 0.0

    def slack(self, numbers: float) -> float:
        """How much its rounding can add to the norm of an upload of so many numbers, each times its weight squared."""
        return 0.0

    def trust(self) -> str:
        """Who has to be trusted for its guarantee."""
        return ""

    def assumes(self) -> list[str]:
        """What its guarantee hangs on besides."""
        return []

    def has_shortcut(self, uploads: Uploads) -> bool:
        """Whether ``in_sum`` stands for what all devices do, for uploads of this kind."""
        return False

    def in_sum(self, total: Total, uploads: Uploads, rng: Rng) -> Total:
        """The simulator's shortcut: the sum of what all devices would have done, drawn at once."""
        raise FedrecError(f"channel '{self.name}' says that it has a shortcut: give it 'in_sum'")

    @property
    def dense(self) -> bool:
        """Whether devices have to send their tables whole, touched or not."""
        return False

    @property
    def number(self) -> int:
        """Bytes of a number on the wire."""
        return NUMBER

    def says(self) -> str:
        """What a user should know about this stage; printed with the run."""
        return ""


def sent_through(
    stages: Sequence[Stage],
    upload: Upload,
    uploads: Uploads,
    secret: int,
    round: int,
    keys: NDArray[np.uint64],
    draw: Draw = generator,
) -> Upload:
    """The devices' half: each client's upload by itself, with randomness of that client, stage by stage."""
    for place, stage in enumerate(stages):
        if upload.clients == 0:
            break
        if not stage.at_device:
            continue
        if stage.draws:
            name = stream_of(place, stage)
            each = ((upload.one(c), draw(secret, name, round, int(key))) for c, key in enumerate(keys))
            upload = joined([_checked(stage, stage.on_device(one, uploads, rng)) for one, rng in each])
        else:
            upload = _checked(stage, stage.on_device(upload, uploads, NOTHING_DRAWN))
    return upload


def _checked(stage: Stage, sent: Upload) -> Upload:
    if not isinstance(sent, Upload):
        raise FedrecError(
            f"channel '{stage.name}' makes a {type(sent).__name__} of an upload: a stage must return the upload"
        )
    return sent


def received(
    stages: Sequence[Stage], total: Total, uploads: Uploads, seed: int, turn: int, draw: Draw = generator
) -> Total:
    """The server's half, in reverse."""
    for place, stage in reversed(list(enumerate(stages))):
        total = stage.on_server(total, uploads, draw(seed, f"server {stream_of(place, stage)}", turn))
    return total


def shortcut_of(stages: Sequence[Stage], uploads: Uploads) -> int:
    """How many of the last stages a simulator may draw for the sum; devices play those before."""
    count, fixed = 0, any(stage.hides_single for stage in stages)
    for stage in reversed(stages):
        if stage.at_device and not (stage.has_shortcut(uploads) and (stage.in_steps or not fixed)):
            break
        count += 1
    return count


def drawn_for_sum(
    stages: Sequence[Stage], total: Total, uploads: Uploads, seed: int, turn: int, last: int | None = None
) -> Total:
    """The shortcut of a simulator, for so many of the last stages; None is all."""
    for place, stage in enumerate(stages):
        if stage.at_device and (last is None or place >= len(stages) - last):
            total = stage.in_sum(total, uploads, generator(seed, f"sum {stream_of(place, stage)}", turn))
    return total


def stream_of(place: int, stage: Stage) -> str:
    """Two stages of a kind draw apart."""
    return f"channel {place} {stage.name}"


def parse(text: str) -> Stage:
    """A stage from ``name``, ``name=strength`` or either with ``,option=value`` after it."""
    from fedrec.channel.clip import Cap, Clip
    from fedrec.channel.gaussian import Gaussian
    from fedrec.channel.laplace import Laplace
    from fedrec.channel.local import Local
    from fedrec.channel.quantize import Quantize
    from fedrec.channel.robust import Krum, Median, NormBound, RowCap, Trimmed, Verify
    from fedrec.channel.secure import Fixed, Secure

    known: dict[str, type[Stage]] = {
        kind.name: kind
        for kind in (
            *(Clip, Cap, Gaussian, Local, Laplace, Quantize, Fixed, Secure),
            *(NormBound, RowCap, Krum, Median, Trimmed, Verify),
        )
    }
    head, *others = text.split(",")
    name, _, first = head.partition("=")
    if name not in known:
        raise FedrecError(f"unknown channel stage '{name}': {nearest(name, known)}")
    kind = known[name]
    values = {next(iter(kind.model_fields)): first} if first else {}
    for pair in others:
        key, equals, value = pair.partition("=")
        if not equals:
            raise FedrecError(f"channel '{text}': write options as key=value, not '{pair}'")
        values[key] = value
    return kind(**values)
