"""How a device without fedrec makes its private part and ranks: what a method declares, as numbers and words.

The result is JSON and arrays; docs/export.md says what the fields mean and docs/device.py follows them with
NumPy alone, to the same list as ``run.recommend(likes=…)``.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from fedrec.clients.engine import WILD
from fedrec.clients.state import frozen
from fedrec.core.errors import FedrecError
from fedrec.core.factors import Factors
from fedrec.core.federated import Phase
from fedrec.core.gradient import GradientMethod
from fedrec.core.kernel import LeastSquares
from fedrec.core.recipe import Expression, Recipe, linear, names_in, rows
from fedrec.core.rng import client_key, stream
from fedrec.core.scorer import Scorer
from fedrec.core.slots import Array
from fedrec.data.negatives import NEGATIVES, SHUFFLE
from fedrec.data.samples import turn
from fedrec.methods.central.base import Central
from fedrec.methods.central.itemitem import ItemItem
from fedrec.methods.central.popularity import SameForAll
from fedrec.serve.join import PASSES, newcomers
from fedrec.server.server import Server, ServerState

NOTHING = {"how": "nothing"}
NOBODY = "Somebody without likes is offered what most people have met: rank by `popularity`."
SOLVE = (
    "A device solves for its vector w: (VᵀV + α OᵀO + λ I) w = (1 + α) Σ m o + λ w₀, where V are all item rows "
    "(VᵀV is `gram`), O the rows o of the liked items, λ is `lam` times the number of likes to the power `scale`, "
    "and m is 1."
)
AGES = (
    "But m = floor + (1 − floor)·½^(age / half-life) with the two numbers half-life and floor of `recency`, where the "
    "newest like has age 0, the one before it 1, and so on."
)
NEXT = (
    "Its context is (1 − γ) Σ γ^age o/max(|o|, `shortest`) over the likes for each γ of `decays`, side by side, and a "
    "1 at the end; all of it times `weight`."
)
TRAIN = (
    "A device starts from `start` and takes every pass of `passes` in turn: it draws negatives with the pass's key, "
    "and in each epoch visits likes (label 1) and negatives (label 0) in the order of that epoch's key, `batch` "
    "samples a step, down the gradient of the mean cross-entropy."
)
WEIGHTS = (
    "A like's part of the loss is weighted by floor + (1 − floor)·½^(age / half-life), over the mean of these weights, "
    "with the half-life and floor of `recency`; the newest like has age 0, and a like's negatives weigh what it does."
)
SECRET = (
    "The keys are those of run.recommend(likes=…), so that lists can be compared. A device that uses keys of its own "
    "ranks as well, and keeps what it drew to itself."
)
TABLE = "A score is `score`, read from inside: docs/export.md has its words."


class Exported(NamedTuple):
    """Arrays that a device needs beside the shared ones, and how to use them."""

    arrays: dict[str, NDArray[Any]]
    recipe: dict[str, Any]


def _recipe(score: Expression, private: dict[str, Any], *words: str) -> dict[str, Any]:
    return {"words": [*words, NOBODY], "private": private, "score": score}


# -- a federation ------------------------------------------------------------------------------


def for_device(server: Server, state: ServerState, negatives_per_positive: int) -> Exported:
    """The shared arrays, and what a newcomer of a federation does with them by itself."""
    method, catalog, shared = server.method, server.catalog, dict(state.shared)
    if not shared and server.local:
        raise FedrecError(f"this run of {method.label} shared nothing (--local): nothing to export")
    if not shared:
        raise FedrecError(
            f"{method.label} cannot be exported for devices: its server makes a model for each of them and shares none"
        )
    declared, kernel = method.recipe(catalog), method.kernel(catalog)
    made = None
    if declared is not None and isinstance(kernel, LeastSquares):
        private: dict[str, Any] = {
            "how": "solve",
            "items": kernel.items,
            "gram": kernel.gram,
            "vector": kernel.vector,
        }
        private |= {"alpha": kernel.alpha, "lam": kernel.lam, "scale": kernel.scale, "prior": "prior"}
        private |= {"recency": kernel.recency, "next": None}
        words = [SOLVE, AGES, TABLE] if kernel.recency else [SOLVE, TABLE]
        if more := kernel.next_item:
            private["next"] = {"context": more.context, "weight": more.weight}
            private["next"] |= {"decays": more.decays, "shortest": more.shortest}
            words.insert(-1, NEXT)
        made = Exported({"prior": kernel.prior}, _recipe(declared.score, private, *words))
    elif declared is not None and server.service is None:
        made = _trained(server, state, declared, negatives_per_positive)
    if made is None:
        said = f"no recipe: {method.label} does not say how a device joins and ranks with plain arrays alone"
        return Exported(shared, {"words": [said], "private": None, "score": None})
    return Exported(shared | made.arrays, made.recipe)


def _trained(
    server: Server, state: ServerState, declared: Recipe, negatives_per_positive: int
) -> Exported | None:
    """By gradient steps: passes over what is kept, or the one in which fresh arrays are made."""
    method, catalog, slots = server.method, server.catalog, server.slots
    used = names_in(declared.score)
    mine = {n: s for n, s in slots.items() if n in used and s.owner != "shared"}
    owners = {s.owner for s in mine.values()}
    if not isinstance(method, GradientMethod) or len(owners) != 1:
        return None
    if owners == {"fresh"}:
        plans = {state.round: method.rebuild(catalog, state.round)}
        start = {n: s.freshly(n, server.seed, state.round) for n, s in mine.items()}
    else:
        rounds = range(state.round + 1, state.round + PASSES + 1)
        plans = {r: frozen(method.plan(catalog, r)) for r in rounds}
        start = {n: s.starting(n, server.seed) for n, s in mine.items()}
    phases = [phase for plan in plans.values() for phase in plan]
    moved = {n for phase in phases for group in phase.groups for n in group.names}
    if any(phase.part != "all" for phase in phases) or not moved <= mine.keys():
        return None
    client = newcomers([[0]], catalog.n_items, negatives_per_positive).keys[0]
    private = {
        "how": "train",
        "start": {n: _start(n, values) for n, values in start.items()},
        "shapes": {n: s.shape for n, s in mine.items()},
        "rows": sorted(n for n, s in mine.items() if s.rows),
        "negatives_per_positive": negatives_per_positive,
        "batch": method.batch_size,
        "one_step": declared.one_step,
        "radius": declared.radius,
        "terms": [asdict(term) for term in declared.terms],
        "tolerance": method.tolerance,
        "wild": WILD,
        "passes": [_pass(server.seed, round, client, plan) for round, plan in plans.items()],
    }
    arrays = {f"start.{n}": v for n, v in start.items() if private["start"][n] == f"start.{n}"}  # type: ignore[index]
    words = [TRAIN, SECRET, TABLE]
    if declared.radius > 0:
        words.insert(
            1, "A gradient is taken `radius` further along itself (over all trained arrays), then followed."
        )
    if declared.one_step:
        words.insert(1, "A pass is one step, along the sum of the gradients of all its batches.")
    if any(phase.recency for phase in phases):
        words.insert(1, WEIGHTS)
    if method.tolerance > 0:
        words.insert(1, "A phase ends where an epoch changes the loss by less than `tolerance` of it.")
    return Exported(arrays, _recipe(declared.score, private, *words))


def _start(name: str, values: Array) -> str | float:
    """A number where all are the same, else the name of an array of the file."""
    first = float(values.flat[0])
    return first if (values == values.flat[0]).all() else f"start.{name}"


def _pass(seed: int, round: int, client: Any, plan: list[Phase]) -> dict[str, Any]:
    """The keys of a newcomer's random streams, and what moves how."""

    def key(name: str) -> Any:
        return client_key(np.uint64(stream(seed, name, round)), client)

    phases = []
    for number, phase in enumerate(plan):
        turns = [turn(number, epoch) for epoch in range(phase.epochs)]
        groups = [
            {"names": g.names, "optimizer": type(g.optimizer).__name__, **asdict(g.optimizer)}  # type: ignore[call-overload]
            for g in phase.groups
        ]
        orders = [_hex(client_key(key(SHUFFLE), np.uint64(t))) for t in turns]
        phases.append(
            {"groups": groups, "terms": dict(phase.terms), "recency": phase.recency, "orders": orders}
        )
    return {"negatives": _hex(key(NEGATIVES)), "phases": phases}


def _hex(key: Any) -> str:
    """64 bits as text: JSON's numbers are not that exact everywhere."""
    return f"0x{int(key):016x}"


# -- a yardstick -------------------------------------------------------------------------------


def for_yardstick(method: Central, scorer: Scorer) -> Exported:
    """A fitted yardstick for new people."""
    if isinstance(scorer, SameForAll):
        same = "The same for everyone: rank by `scores`."
        return Exported({"scores": scorer.scores}, _recipe(["same", "scores"], NOTHING, same))
    if isinstance(scorer, ItemItem):
        added = "A score is the sum over the liked items i of what row i of `weights` says of the item"
        if not issparse(scorer.weights):
            return Exported({"weights": scorer.weights}, _recipe(["sum", "weights"], NOTHING, f"{added}."))
        w = scorer.weights.tocsr()
        arrays = {"weights": w.data, "columns": w.indices, "ends": w.indptr}
        words = (
            f"{added}: row i is `weights` from `ends`[i] to `ends`[i + 1], of the items in `columns`, else 0."
        )
        return Exported(arrays, _recipe(["sum_sparse", "weights", "columns", "ends"], NOTHING, words))
    solved = method.solves()
    if solved is None or not isinstance(scorer, Factors):
        raise FedrecError(
            f"{method.label} cannot be exported for devices: it is a yardstick of known users only"
        )
    v = scorer.items
    private: dict[str, Any] = {
        "how": "solve",
        "items": "items",
        "gram": "gram",
        "vector": "user",
        "prior": None,
    }
    private |= {"alpha": solved.alpha, "lam": solved.lam, "scale": 0.0, "recency": None, "next": None}
    arrays = {"items": v, "gram": (v.T.astype(np.float64) @ v).astype(np.float32)}
    return Exported(arrays, _recipe(linear("user", None, rows("items")), private, SOLVE, TABLE))
