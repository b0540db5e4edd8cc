"""One local step of a small neural scorer on a client's compact tables (the formulas are in ``core.network``)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedrec.clients.kernels.mixing import Beside, balanced
from fedrec.clients.kernels.redundancy import correlate, lessen
from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F
from fedrec.core.network import NO, TILE, Memory, Net, gradient, make_memory, prepare, sensitivity
from fedrec.core.products import spot
from fedrec.core.slots import Array
from fedrec.core.sums import squared_length

TINY = F(1e-12)  # as wrap.gel has it
VECTORS, LAYERS, ROWS = range(3)


class Rule(NamedTuple):
    """How a client trains; a line per phase."""

    parts: NDArray[np.int64]  # which of the samples
    epochs: NDArray[np.int64]
    moves: NDArray[np.bool_]  # whether vectors, layers and rows move
    rates: Array  # of each number of θ: SGD; 0 where Adam moves it
    row_rates: Array  # of both tables
    recency: Array  # half-life (0: samples count alike) and floor
    adam: Array  # rates of both vectors; 0: not Adam
    adam_terms: NDArray[np.float64]  # beta1, beta2, epsilon
    batch: int
    tolerance: float
    in_turn: bool
    at_once: bool
    private_layers: bool
    radius_private: np.float32
    radius_shared: np.float32


class Own(NamedTuple):
    """One client while it trains: θ, touched rows of both tables, and Adam's moments of the vectors."""

    theta: Array
    e: Array  # (rows, stride)
    f: Array
    m: Array
    v: Array
    t: Array


class Room(NamedTuple):
    """Scratch, used by one client after another."""

    memory: Memory
    e: Array  # rows of a batch, then their gradients; flat
    f: Array
    e_sums: Array  # gradients added up by row, 0 between steps
    f_sums: Array
    seen: NDArray[np.bool_]  # rows, False between steps
    weights: Array  # of the batch's samples
    aged: Array  # the same times what their age counts
    g: Array  # the gradient that is stepped along
    g_there: Array  # the one at a perturbed point
    there: Array  # that point


@part()
def make_room(net: Net, sums: int, batch: int) -> Room:
    """For batches of at most so many samples, and sums of gradients for so many rows."""
    return Room(
        make_memory(net, batch), np.zeros((batch + TILE) * net.row_stride, F),
        np.zeros((batch + TILE) * net.product_stride, F), np.zeros((sums, net.row_stride), F),
        np.zeros((sums, net.product_stride), F), np.zeros(sums, np.bool_), np.zeros(batch, F), np.zeros(batch, F),
        np.zeros(net.size, F), np.zeros(net.size, F), np.zeros(net.size, F),
    )  # fmt: skip


@part(fastmath=STEADY, error_model="numpy")
def _gather(table: Any, sums: Any, factor: Any, rows: Any, out: Any) -> None:
    """Rows of a batch, moved by ``factor`` along their gradients."""
    width = table.shape[1]
    for k in range(len(rows)):
        for j in range(width):
            out[spot(k * width, j)] = table[rows[k], j]
        if factor != F(0):
            for j in range(width):
                out[spot(k * width, j)] += factor * sums[rows[k], j]


@part(fastmath=STEADY, error_model="numpy")
def _scatter(table: Any, rows: Any, g: Any, factor: Any) -> None:
    """Add multiples of the samples' gradients to their rows."""
    width = table.shape[1]
    for k in range(len(rows)):
        for j in range(width):
            table[rows[k], j] += factor * g[spot(k * width, j)]


@part(fastmath=STEADY, error_model="numpy")
def _move_rows(table: Any, sums: Any, rows: Any, g: Any, rate: Any) -> None:
    """Move each row once, by all its samples: where the move is the gradient that is sent, it is rounded once.

    ``sums`` is scratch, zero before and after.
    """
    _scatter(sums, rows, g, F(1))
    for k in range(len(rows)):
        for j in range(table.shape[1]):
            table[rows[k], j] -= rate * sums[rows[k], j]
            sums[rows[k], j] = F(0)


@part(fastmath=FAST, error_model="numpy")
def _length(sums: Any, rows: Any, seen: Any) -> Any:
    """‖gradient‖² of the rows of a batch, each row counted once. ``seen`` is scratch, zero before and after."""
    total = F(0)
    for k in range(len(rows)):
        if not seen[rows[k]]:
            seen[rows[k]] = True
            for j in range(sums.shape[1]):
                total += sums[rows[k], j] * sums[rows[k], j]
    for k in range(len(rows)):
        seen[rows[k]] = False
    return total


@part(fastmath=STEADY, error_model="numpy")
def _perturb(theta: Any, g: Any, first: int, end: int, radius: Any, squares: Any, there: Any) -> Any:
    """θ with a part moved by ``radius`` along its gradient; ``squares`` are those of its rows.

    Returns how far, in gradients.
    """
    factor = radius / (np.sqrt(squares + squared_length(g[first:end])) + TINY)
    for i in range(len(theta)):
        there[i] = theta[i]
    for i in range(first, end):
        there[i] += factor * g[i]
    return factor


@part(fastmath=STEADY, error_model="numpy")
def _adam(net: Net, own: Own, g: Any, rates: Any, terms: Any) -> None:
    """A step of Adam (Kingma & Ba, ICLR 2015) of the vectors that have a rate."""
    beta1, beta2, epsilon = F(terms[0]), F(terms[1]), F(terms[2])
    rest1, rest2 = F(1 - terms[0]), F(1 - terms[1])  # before they are rounded
    for which in range(2):
        if rates[which] > 0:
            own.t[which] += F(1)
            steps = np.float64(own.t[which])
            rate = F(rates[which] / (1 - terms[0] ** steps))
            scale = F(1 / (1 - terms[1] ** steps))
            start = net.times if which else 0
            for i in range(start, start + (net.product if which else net.vector)):
                own.m[i] = beta1 * own.m[i] + rest1 * g[i]
                own.v[i] = beta2 * own.v[i] + rest2 * g[i] * g[i]
                own.theta[i] -= rate * own.m[i] / (np.sqrt(own.v[i] * scale) + epsilon)


@part(fastmath=STEADY, error_model="numpy")
def _mix(table: Any, fixed: Any, a: Any, rows: Any, out: Any) -> None:
    """Rows of a batch, a part of them the client's own."""
    width = table.shape[1]
    for k in range(len(rows)):
        for j in range(width):
            out[spot(k * width, j)] = a * table[rows[k], j] + (F(1) - a) * fixed[rows[k], j]


@part(fastmath=STEADY, error_model="numpy")
def weigh(net: Net, own: Own, rows: Any, batch: int, beside: Beside, room: Room) -> Any:
    """a over some samples, in batches of so many."""
    if beside.share >= F(0):
        return beside.share
    prepare(net, own.theta, room.memory)
    k_local = k_fixed = F(0)
    for start in range(0, len(rows), batch):
        some = rows[start : start + batch]
        _gather(own.e, room.e_sums, F(0), some, room.e)
        _gather(own.f, room.f_sums, F(0), some, room.f)
        k_local += sensitivity(net, own.theta, room.memory, room.e, room.f, len(some))
        _gather(beside.e, room.e_sums, F(0), some, room.e)
        _gather(beside.f, room.f_sums, F(0), some, room.f)
        k_fixed += sensitivity(net, own.theta, room.memory, room.e, room.f, len(some))
    return balanced(k_local, k_fixed, beside.share)


@part(fastmath=STEADY, error_model="numpy")
def step(
    net: Net, own: Own, rows: Any, y: Any, rule: Rule, phase: int, room: Room, beside: Beside | None, wanted: bool,
) -> Any:  # fmt: skip
    """One batch: moves θ and the rows; returns the loss before the (last) move.

    ``in_turn``: the private part first, then the shared part at the new private part. Sharpness-aware: once the
    gradient is known (look 0), each owner's is taken again at the worst point within a radius of its arrays, the
    other's left where they are: the private part's (look 1), then the shared part's (look 2). Where samples count by
    age, they do so for the private part alone. ``beside``: rows are mixed, and the redundancy loss is left out where
    rows stay as they are, unless its value is ``wanted``.
    """
    g, value = room.g, F(0)
    sharp_private, sharp_shared = rule.radius_private > 0, rule.radius_shared > 0
    by_age = rule.recency[phase, 0] > 0
    for turn in range(2 if rule.in_turn else 1):
        vectors = rule.moves[phase, VECTORS] and turn == 0
        layers = rule.moves[phase, LAYERS] and (not rule.in_turn or rule.private_layers == (turn == 0))
        moves = rule.moves[phase, ROWS] and (not rule.in_turn or turn == 1)
        if not (vectors or layers or moves):
            continue
        mine, ours = layers and rule.private_layers, layers and not rule.private_layers
        first, end = (0 if vectors else net.vectors), (net.size if mine else net.vectors)  # the private part
        common = net.vectors if ours else net.size  # where the shared part begins
        lost = False  # the rows' gradients
        for look in range(3 if sharp_private or sharp_shared else 1):
            start, stop, radius, squares = 0, 0, F(0), F(0)
            of_vectors, of_layers, of_rows = vectors, layers, moves
            if look == 1:
                if not (sharp_private and first < end):
                    continue
                start, stop, radius = first, end, rule.radius_private
                of_layers, of_rows, lost = mine, False, moves
            elif look == 2:
                if not ((sharp_shared and (ours or moves)) or lost):
                    continue
                start, stop, radius = common, net.size, rule.radius_shared
                of_vectors, of_layers = False, ours and sharp_shared
            if look == 2 and sharp_shared and moves:
                squares = _length(room.e_sums, rows, room.seen) + _length(room.f_sums, rows, room.seen)
            factor = F(0)
            if look > 0:
                factor = _perturb(own.theta, g, start, stop, radius, squares, room.there)
            point, found = (own.theta, g) if look == 0 else (room.there, room.g_there)
            a = F(1)  # what of a row moves with the mixture
            if beside is None:
                _gather(own.e, room.e_sums, factor if look == 2 else F(0), rows, room.e)
                _gather(own.f, room.f_sums, factor if look == 2 else F(0), rows, room.f)
            else:
                a = weigh(net, own, rows, len(rows), beside, room)
                _mix(own.e, beside.e, a, rows, room.e)
                _mix(own.f, beside.f, a, rows, room.f)
            if by_age and look == 0 and first < end:  # before the rows are overwritten
                gradient(
                    net, point, room.memory, room.e, room.f, y, room.aged, vectors, mine, NO, room.g_there
                )  # fmt: skip
            weights = room.aged if by_age and look == 1 else room.weights
            loss = gradient(
                net, point, room.memory, room.e, room.f, y, weights, of_vectors, of_layers, of_rows, found
            )  # fmt: skip
            if by_age and look == 0:
                for i in range(first, end):
                    g[i] = room.g_there[i]
            if beside is not None and beside.redundancy > 0 and (moves or wanted):
                redundant = correlate(own.e, beside.e, rows, beside.gamma, moves, beside.of_e)
                redundant += correlate(own.f, beside.f, rows, beside.gamma, moves, beside.of_f)
                loss += beside.redundancy * redundant
            if look == 0:
                value = loss
                if sharp_shared and moves:
                    _scatter(room.e_sums, rows, room.e, F(1))
                    _scatter(room.f_sums, rows, room.f, F(1))
            elif radius > 0:
                for i in range(start, stop):
                    g[i] = found[i]
        if sharp_shared and moves:
            for row in rows:
                for j in range(room.e_sums.shape[1]):
                    room.e_sums[row, j] = F(0)
                for j in range(room.f_sums.shape[1]):
                    room.f_sums[row, j] = F(0)
        if vectors:
            _adam(net, own, g, rule.adam[phase], rule.adam_terms)
        for i in range(0 if vectors else net.vectors, net.size if layers else net.vectors):
            own.theta[i] -= rule.rates[phase, i] * g[i]
        if moves and rule.at_once:
            _move_rows(own.e, room.e_sums, rows, room.e, rule.row_rates[phase, 0])
            _move_rows(own.f, room.f_sums, rows, room.f, rule.row_rates[phase, 1])
        elif moves:
            _scatter(own.e, rows, room.e, -rule.row_rates[phase, 0] * a)
            _scatter(own.f, rows, room.f, -rule.row_rates[phase, 1] * a)
        if beside is not None and beside.redundancy > 0 and moves:
            lessen(own.e, rows, rule.row_rates[phase, 0] * beside.redundancy, beside.of_e)
            lessen(own.f, rows, rule.row_rates[phase, 1] * beside.redundancy, beside.of_f)
    return value
