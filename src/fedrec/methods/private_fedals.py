"""Private FedALS: FedALS whose every upload is clipped, and whose sums bear noise.

After DPALS (Chien et al., "Private Alternating Least Squares", ICML 2021), in federated form: no row of a user is ever
seen, only noisy sums. The first round releases counts, from which the server has popularity, sizes, α, λ and the rows
worth training; some rounds of factors follow. Everything that the server does with a sum after the noise is free.

Where factors would be noise at this budget (few users, or few positives), the other rounds count as well: popularity
and public columns rank.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from fedrec.core.federated import Batch, Context, Params, Phase
from fedrec.core.kernel import Bounded, LeastSquares
from fedrec.core.settings import Search
from fedrec.core.slots import Array, Arrays, Catalog, Slot, constant, fresh, sent, server, shared, zeros
from fedrec.core.upload import Total, Uploads
from fedrec.methods.history import HistoryMethod

STD = 0.1  # spread of the first factors
POPULARITY_POWER = 0.25  # of an item's share of clients, in the popularity column
COUNTING = 0.1  # share of the budget for counts
GROWTH = 1.5  # of the budget from one round of factors to the next
OUTER_NORM = 8.3  # what w wᵀ counts in an upload's norm beside the corrections
LAM = 0.5  # λ beside that of FedALS without noise
LEAST_RATIO, LEAST_POSITIVES = 2.0, 20.0  # of signal to noise, and per client: below, factors lose to none
ALONE = 0.15  # weight of public columns without factors, beside that with them
MEAN_OVER_ROOTS = 1.35  # the mean of n over the square of the mean of √n, as it is in most data


class PrivateFedALS(HistoryMethod):
    """FedALS's model; see there. w₀ and the popularity column are FedALS's, public columns are fixed too."""

    name: ClassVar[str] = "private-fedals"
    citation: ClassVar[str] = "fedrec; after Chien et al., ICML 2021"
    use_when: ClassVar[str] = "you state an epsilon: it is what --epsilon makes of fedals"
    reveals: ClassVar[str] = (
        "its rows are the client's positives, as FedALS's; behind clip and gaussian only noisy sums are seen"
    )

    dim: int = Field(32, ge=1, le=256, description="the longest that trained vectors may be")
    sweeps: int = Field(3, ge=0, description="rounds of factors after the round of counts")
    popularity: Annotated[float, Search(0.05, 1)] = Field(0.3, gt=0, description="weight of popularity in w₀")
    features: Annotated[float, Search(0.5, 5, log=True)] = Field(
        2.0, ge=0, description="weight of public item features; 0: leave them out"
    )
    scale: float = Field(0.25, ge=0, le=1, description="λ grows with a row's interactions to this power")
    eta: float = Field(1.0, gt=0, lt=2, description="length of the server's step")
    kappa: float = Field(4.0, ge=0, description="damping c_j = κ × share of clients that met item j")

    def choices(self) -> list[Arrays]:
        return []  # what devices try out would have to be released: recency's numbers are fixed

    def public(self, catalog: Catalog) -> int:
        """How many columns are fixed from what is known of the items."""
        return 0 if catalog.features is None or self.features == 0 else catalog.features.shape[1]

    def width(self, catalog: Catalog) -> int:
        return self.dim + 1 + self.public(catalog)

    def prior(self, catalog: Catalog) -> Array:
        w = np.zeros(self.width(catalog), np.float32)
        w[self.dim] = self.popularity
        return w

    def slots(self, catalog: Catalog) -> dict[str, Slot]:
        rows, width = catalog.n_items, self.width(catalog)

        def table(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
            first = np.zeros(shape)
            first[:, : self.dim] = rng.normal(0.0, STD, (shape[0], self.dim))
            return first

        expected = np.diag(np.where(np.arange(width) < self.dim, rows * STD**2, 0.0))
        return {
            "items": shared(rows, width, start=table, rows=True, unknown="zero"),
            "gram": shared(width, width, start=constant(expected)),
            "numbers": shared(3, start=constant(np.array([1.0, 1.0, 0.0]))),  # α, λ, phase
            "omega": shared(
                rows, start=zeros(), rows=True, unknown="zero"
            ),  # weight of an item's row; 0: not kept
            "user": fresh(width, start=zeros()),
            "counted": server(rows, start=zeros(), rows=True, unknown="zero"),
            "precision": server(start=zeros()),
            **self.history_slots(catalog),
        }

    def uploads(self, catalog: Catalog) -> Uploads:
        rows, width, d = catalog.n_items, self.width(catalog), self.dim
        arrays = {"corrections": sent(rows, d, rows=True), "counts": sent(rows, rows=True)}
        arrays |= {"outer": sent(width, d), "scale": sent()}
        return Uploads(arrays, norms={"outer": OUTER_NORM}, shares=self.share)

    def share(self, round: int) -> float:
        """Of the budget, beside the other rounds."""
        if round > 1:
            return GROWTH ** (round - 2)
        factors = sum(self.share(r) for r in range(2, self.sweeps + 2))
        return COUNTING / (1 - COUNTING) * factors if factors else 1.0

    def fit(
        self, shared: Params, private: Params, passes: Sequence[Batch], plan: list[Phase]
    ) -> tuple[Params, Params, Any]:
        """FedALS's vector; sent is what ``Bounded`` says."""
        import torch

        (batch,), p, d = passes, {**shared, **private}, self.dim
        v = p["items"]
        alpha, lam, phase = p["numbers"]
        met = torch.zeros(v.shape[0]).index_add(0, batch.items, batch.mask)
        aim = torch.zeros(v.shape[0]).index_add(0, batch.items, self.aims(p, batch, plan))
        own, n = v * met[:, None], met.sum().clamp(min=1)
        prior = torch.zeros(v.shape[1]).index_fill(0, torch.tensor([d]), self.popularity)
        a = p["gram"] + alpha * own.T @ own + lam * n**self.scale * torch.eye(v.shape[1])
        b = (1 + alpha) * aim @ v + lam * n**self.scale * prior
        w = torch.cholesky_solve(b[:, None], torch.linalg.cholesky(a))[:, 0]
        asked = (alpha * (v @ w) - (1 + alpha)) * met * p["omega"] * phase
        upload = {
            "corrections": asked[:, None] * w[:d],
            "counts": (1 - phase) * met * n**-0.5,
            "outer": phase * w[:, None] * w[:d],
            "scale": phase,
        }
        return {**p, "user": w}, upload, torch.zeros(())

    def logits(self, p: Any, i: Any) -> Any:
        return p.items[i] @ p.user

    def merge(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """Counts first, then steps of the item rows."""
        if held["numbers"][2] == 0:
            return self._counted(held, total, context)
        return self._stepped(held, total, context)

    def _counted(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """Everything that follows from counts c_j = Σ 1/√n_u; of several rounds their mean, by precision."""
        catalog = context.catalog
        everyone = catalog.n_users / total.clients  # a cohort stands for all
        deviation = everyone * context.noise.get("counts", 0.0)
        before, precision = held["precision"], np.float32(1 / max(deviation, 1e-3) ** 2)
        counted = (before * held["counted"] + precision * everyone * total.sums["counts"]) / (
            before + precision
        )
        roots = max(float(counted.sum()), 1.0)  # Σ √n_u
        positives = min(max(MEAN_OVER_ROOTS * (roots / catalog.n_users) ** 2, 1.0), catalog.n_items)
        share = np.clip(counted / roots * positives, 0, 1)
        alpha = 200 / positives
        pairs = math.log10(catalog.n_users * catalog.n_items) - 4.3
        lam = LAM * min(max(pairs, 2.0), 3.0) * min(positives / 9, 1.0) * (1 + alpha)
        new = np.zeros_like(held["items"])
        new[:, self.dim] = share**POPULARITY_POWER
        omega = np.zeros(catalog.n_items, np.float32)
        d, kept = self._size(roots, positives, deviation, context) if before == 0 else (0, 0)  # decided once
        if kept:
            rows = np.argsort(-counted, kind="stable")[:kept]
            omega[rows] = np.maximum(counted[rows], max(deviation, 1.0)) ** -0.25
            omega /= np.sqrt(np.average(omega[rows] ** 2, weights=share[rows] + 1e-9))
            new[rows, :d] = held["items"][rows, :d] * new[rows, self.dim, None]
        if self.public(catalog):
            assert catalog.features is not None
            weight = self.features * (1.0 if kept else ALONE)
            new[:, self.dim + 1 :] = weight * catalog.features * new[:, self.dim, None]
        numbers = np.array([alpha, lam, kept > 0], np.float32)
        found = {"counted": counted, "precision": before + precision, "omega": omega, "numbers": numbers}
        return {**held, **found, **_table(new)}

    def _size(self, roots: float, positives: float, deviation: float, context: Context) -> tuple[int, int]:
        """How many columns and rows the budget can fill; none where factors would be noise."""
        rows = context.catalog.n_items
        if self.sweeps == 0:
            return 0, 0
        if deviation == 0:
            return self.dim, rows
        whole = sum(self.share(r) for r in range(1, self.sweeps + 2)) / self.share(context.round)
        mu = math.sqrt(whole) / deviation  # of all rounds
        r = roots / rows * mu / math.sqrt(self.sweeps)
        if r < LEAST_RATIO or positives < LEAST_POSITIVES:
            return 0, 0
        return min(self.dim, max(round(7 * r**0.45), 1)), min(rows, max(round(0.13 * math.sqrt(r) * rows), 1))

    def _stepped(self, held: Arrays, total: Total, context: Context) -> Arrays:
        """One preconditioned step of the kept rows, as FedALS's, on sums freed of what noise can be told apart."""
        omega, (alpha, lam, _), clients = held["omega"], held["numbers"], context.catalog.n_users
        rows = np.flatnonzero(omega)
        v = held["items"][rows].astype(np.float64)
        d = int(v[:, : self.dim].any(axis=0).sum())
        # Clipping scaled what clients sent, each by its own number, which their sum tells: a weighted mean.
        times = clients / max(float(total.sums["scale"]), 1.0)
        s = total.sums["outer"][:, :d].astype(np.float64) * times
        s[:d] = positive((s[:d] + s[:d].T) / 2)
        share = v[:, self.dim] ** (1 / POPULARITY_POWER)
        c = total.sums["corrections"][rows, :d] * times / omega[rows, None]
        c = filtered(c, share * clients, context.noise.get("corrections", 0.0) * times / omega[rows])
        lams = lam * np.maximum(share * clients, 1)[:, None] ** self.scale
        g = v @ s + lams * v[:, :d] + c
        values, q = np.linalg.eigh(s[:d])
        damped = (1 + alpha * np.minimum(self.kappa * share, 1))[:, None] * np.maximum(values, 0)
        new = held["items"].copy()
        new[rows, :d] -= (self.eta * (g @ q / (damped + lams)) @ q.T).astype(np.float32)
        return {**held, **_table(new)}

    def kernel(self, catalog: Catalog) -> LeastSquares:
        names = ("items", "user", "gram", "corrections", "outer", None)
        recency = "recency" if self.ages(catalog) else None
        bounded = Bounded("numbers", "omega", "counts", "scale", self.dim)
        return LeastSquares(*names, 1.0, 1.0, self.scale, self.prior(catalog), recency, bounded=bounded)


def _table(items: Array) -> Arrays:
    gram = items.T.astype(np.float64) @ items
    return {"items": items, "gram": gram.astype(np.float32)}


def positive(s: Any) -> Any:
    """The nearest positive semi-definite matrix."""
    values, q = np.linalg.eigh(s)
    return (q * np.maximum(values, 0)) @ q.T


def filtered(c: Any, counts: Any, deviation: Any) -> Any:
    """Row j as its mean given its noise, where rows are n_j m + √n_j δ_j with δ ~ N(0, D) (empirical Bayes).

    m and D are those that fit the noisy rows best (by moments).
    """
    if not np.any(deviation):
        return c
    n, noise = np.maximum(counts, 1.0), deviation**2
    weights = n / (n + noise)  # of a row that has spread 1
    m = (weights[:, None] * c).sum(0) / (weights * n).sum()
    rest = c - n[:, None] * m
    w = 1 / (n + noise) ** 2 * n
    spread = (w[:, None] * rest).T @ rest - np.diag(np.full(c.shape[1], (w * noise).sum()))
    values, q = np.linalg.eigh(spread / (w * n).sum())
    values = np.maximum(values, 0)
    signal = n[:, None] * values
    return n[:, None] * m + ((rest @ q) * (signal / (signal + noise[:, None]))) @ q.T
