"""Defences of the server against devices that lie: they look at uploads, or at totals of several groups.

All of it happens after uploads have left, so that a device cannot skip it; and none of it works under one masked sum,
where there is nothing to look at (``secure`` refuses them). A bound that devices keep by themselves (``clip``) is a
claim: whoever poisons does not keep it, unless devices prove it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedrec.channel.clip import added_up, norms_of, scaled
from fedrec.channel.stage import Rng, Stage
from fedrec.core.ragged import Ragged, run_ends
from fedrec.core.rng import GOLDEN
from fedrec.core.slots import Array, Slot
from fedrec.core.upload import Total, Upload, Uploads, summed

WIDTH = 1024  # numbers of an upload as multi-Krum compares it


class Defence(Stage):
    """A stage that devices know nothing of."""

    looks: ClassVar[bool] = True

    @property
    def at_device(self) -> bool:
        return False

    def says(self) -> str:
        return f"{self.name}: the server looks at single uploads or at groups of devices; not under secure"


class NormBound(Defence):
    """No upload is longer than a quantile of those of its round (Sun et al., "Can You Really Backdoor Federated
    Learning?", 2019, with a fixed bound). A weight by samples is a claim too, and bounded alike."""

    name: ClassVar[str] = "normbound"

    quantile: float = Field(
        0.5, gt=0, lt=1, description="of the norms of a round's uploads: the longest allowed"
    )

    def on_uploads(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        norms = norms_of(upload, uploads)
        most = _quantile(norms, self.quantile)
        scale = np.where(norms > most, most / np.maximum(norms, 1e-30), 1.0)
        weights = np.minimum(upload.weights, _quantile(upload.weights, self.quantile))
        return replace(scaled(upload, scale), weights=weights.astype(np.float32))


class RowCap(Defence):
    """No row of an item, and no other array, is longer than a quantile of those of its round.

    Whoever promotes an item puts all of an upload into its row; people spread theirs over what they met. After it a
    device that lies counts as one that met the item, and no more.
    """

    name: ClassVar[str] = "rowcap"

    quantile: float = Field(
        0.5, gt=0, lt=1, description="of the norms of a round's rows: the longest allowed"
    )

    def on_uploads(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        def capped(values: Array) -> Array:
            flat = values.reshape(len(values), int(np.prod(values.shape[1:])))
            norms = np.linalg.norm(flat.astype(np.float64), axis=1)
            most = _quantile(norms, self.quantile)
            scale = np.where(norms > most, most / np.maximum(norms, 1e-30), 1.0).astype(np.float32)
            return (flat * scale[:, None]).reshape(values.shape)

        upload = added_up(upload)  # a row sent twice would count twice
        rows = {n: capped(v) for n, v in upload.rows.items()}
        weights = np.minimum(upload.weights, _quantile(upload.weights, self.quantile)).astype(np.float32)
        return replace(
            upload, rows=rows, dense={n: capped(v) for n, v in upload.dense.items()}, weights=weights
        )


class Verify(Defence):
    """Leaves out every upload that no honest device could have sent.

    Where an upload's rows are its device's positives, all that a device computes follows from them and from what it
    was told (FedALS): the server does the same sums. What is left to whoever lies is to make up a history.
    """

    name: ClassVar[str] = "verify"
    exact: ClassVar[bool] = True

    tolerance: float = Field(
        0.001, gt=0, lt=1, description="distance from what the rows imply, over its norm, that is rounding"
    )

    def unsuited(self, uploads: Uploads) -> str:
        return (
            ""
            if uploads.implied
            else "its rows do not say what else a device must send; krum=0.1 compares uploads instead"
        )

    def on_uploads(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        assert uploads.implied is not None
        upload = added_up(upload)
        rows, dense = uploads.implied(upload.items, uploads.told)
        due = replace(upload, rows=rows, dense=dense)
        apart = replace(
            upload,
            rows={n: upload.rows[n] - v for n, v in rows.items()},
            dense={n: upload.dense[n] - v for n, v in dense.items()},
        )
        near = norms_of(apart, uploads) <= self.tolerance * norms_of(due, uploads)  # nan is not near
        return upload.only(near & (upload.weights == 1))


class Krum(Defence):
    """Multi-Krum: only uploads that many others are near to (Blanchard et al., NeurIPS 2017).

    The score of an upload is the sum of its squared distances to the n − f − 2 nearest; the n − f best are kept.
    """

    name: ClassVar[str] = "krum"

    share: float = Field(0.1, gt=0, lt=0.5, description="of devices that may lie: so many are left out")

    def on_uploads(self, upload: Upload, uploads: Uploads, rng: Rng) -> Upload:
        n = upload.clients
        lie = min(int(np.ceil(self.share * n)), max(n - 3, 0))
        if n < 4 or lie == 0:
            return upload
        short = _sketched(upload)
        products = short @ short.T
        norms = np.diag(products)
        apart = np.maximum(norms[:, None] + norms[None, :] - 2 * products, 0)
        np.fill_diagonal(apart, np.inf)
        near = max(n - lie - 2, 1)
        scores = np.partition(apart, near - 1, axis=1)[:, :near].sum(axis=1)
        kept = np.zeros(n, np.bool_)
        kept[np.argsort(scores, kind="stable")[: n - lie]] = True
        return upload.only(kept)


class Median(Defence):
    """Of the means of random groups of devices, each number's median (Yin et al., ICML 2018, over groups)."""

    name: ClassVar[str] = "median"

    groups: int = Field(10, ge=3, description="groups of devices whose totals are compared")

    @property
    def needs(self) -> int:
        return self.groups

    def on_totals(self, totals: Sequence[Total]) -> Total:
        return _joined(totals, lambda values: np.median(values, axis=0))


class Trimmed(Defence):
    """Of the means of random groups, each number's mean without the largest and the smallest (Yin et al., 2018)."""

    name: ClassVar[str] = "trimmed"

    share: float = Field(0.2, gt=0, lt=0.5, description="of groups that are left out at either end")
    groups: int = Field(10, ge=3, description="groups of devices whose totals are compared")

    @property
    def needs(self) -> int:
        return self.groups

    def on_totals(self, totals: Sequence[Total]) -> Total:
        cut = max(int(self.share * len(totals)), 1)
        return _joined(totals, lambda values: np.sort(values, axis=0)[cut:-cut].mean(axis=0))


@dataclass
class Gathered(Total):
    """Uploads that are not added up yet."""

    uploads: list[Upload] = field(default_factory=list)

    def add(self, other: Any) -> None:
        self.uploads.append(other)


def defended(
    stages: Sequence[Stage], gathered: Gathered, uploads: Uploads, declared: dict[str, Slot], rng: Rng
) -> Total:
    """The sum of a round's uploads after the defences, in their order; the last may compare groups."""
    if not gathered.uploads:
        return Total.empty(declared)
    upload = side_by_side(gathered.uploads)
    for stage in stages:
        upload = stage.on_uploads(upload, uploads, rng)
    compares = [stage for stage in stages if stage.needs > 1]
    if not compares or upload.clients < compares[0].needs:
        return summed(upload, declared)
    group = rng.permutation(np.arange(upload.clients) % compares[0].needs)
    return compares[0].on_totals(
        [summed(upload.only(group == g), declared) for g in range(compares[0].needs)]
    )


def side_by_side(parts: Sequence[Upload]) -> Upload:
    """Uploads of some clients, then of others."""
    first = parts[0]
    counts = np.concatenate([np.diff(part.items.indptr) for part in parts])
    return Upload(
        Ragged(run_ends(counts), np.concatenate([part.items.items for part in parts])),
        {n: np.concatenate([part.rows[n] for part in parts]) for n in first.rows},
        {n: np.concatenate([part.dense[n] for part in parts]) for n in first.dense},
        np.concatenate([part.weights for part in parts]),
    )


def _quantile(norms: NDArray[Any], share: float) -> float:
    """Of those that are not zero: a device that sends nothing says nothing of how long uploads are."""
    some = norms[norms > 0]
    return float(np.quantile(some, share)) if len(some) else 0.0


def _joined(totals: Sequence[Total], reduce: Any) -> Total:
    """What ``reduce`` makes of the groups' means, for as many clients as there are."""
    clients, weight = sum(t.clients for t in totals), sum(t.weight for t in totals)
    sums = {}
    for name in totals[0].sums:
        means = np.stack([t.sums[name] / np.float32(max(t.weight, 1e-12)) for t in totals])
        sums[name] = (reduce(means) * weight).astype(np.float32)
    return Total(sums, weight, clients)


def _sketched(upload: Upload) -> NDArray[np.float64]:
    """Uploads as short vectors with about the same distances: every number is added, with a sign, to one of ``WIDTH``.

    (Charikar et al., "Finding Frequent Items in Data Streams", 2002.) Distances are right to a few percent.
    """
    upload = added_up(upload)
    n = upload.clients
    found = np.zeros(n * WIDTH)
    owner = np.repeat(np.arange(n), np.diff(upload.items.indptr))
    parts = [(owner, upload.items.items, v) for v in upload.rows.values()]
    parts += [(np.arange(n), np.zeros(n, np.int32), v) for v in upload.dense.values()]
    for number, (who, items, values) in enumerate(parts):
        flat = values.reshape(len(values), int(np.prod(values.shape[1:])))
        for column in range(flat.shape[1]):
            key = items.astype(np.uint64) * np.uint64(flat.shape[1]) + np.uint64(column + (number << 40))
            mixed = _mixed(key)
            place = (mixed >> np.uint64(1)) % np.uint64(WIDTH)
            sign = np.where(mixed & np.uint64(1), 1.0, -1.0)
            found += np.bincount(who * WIDTH + place.astype(np.int64), flat[:, column] * sign, n * WIDTH)
    return found.reshape(n, WIDTH)


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 bits that look random (the output function of SplitMix64)."""
    x = keys * np.uint64(GOLDEN)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))
