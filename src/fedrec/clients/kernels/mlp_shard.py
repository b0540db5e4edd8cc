"""A shard of clients with a small neural scorer in one compiled call: sample, gather, train, add up, rank."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

from fedrec.clients.engine import WILD
from fedrec.clients.kernels.ascending import ascending, make_bits
from fedrec.clients.kernels.clock import ticks
from fedrec.clients.kernels.mixing import Beside, Mixing, make_beside, put_back, receive
from fedrec.clients.kernels.mlp_step import Own, Room, Rule, make_room, step, weigh
from fedrec.clients.kernels.shard import FULL, Streams
from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F
from fedrec.core.network import TILE, Net, forward, prepare
from fedrec.core.prefetch import AHEAD, prefetch
from fedrec.core.products import spot
from fedrec.core.ragged import Ids
from fedrec.core.recency import fill_weights
from fedrec.core.slots import Array
from fedrec.data.clients import Histories
from fedrec.data.negatives import fill_order, fill_samples, make_free, positive_of, sample_count
from fedrec.data.samples import choose_part


class Model(NamedTuple):
    """Both item tables, θ as the server has it, and what the clients bring, trained in place.

    The private part of θ comes first in it: ``private`` has a line of it per client.
    """

    e: Array
    f: Array
    theta: Array
    private: Array
    m: Array  # Adam's moments of the vectors
    v: Array
    t: Array
    weights: Array


class Outcome(NamedTuple):
    """Filled in. ``lines`` are items to score afterwards with the client's own rows (empty: none).

    ``kept_*``: the client's touched items, its rows afterwards and the moves of its shared part (empty: not kept).
    """

    e: Array  # sums of moves
    f: Array
    theta: Array
    losses: Array
    finite: NDArray[np.bool_]
    lines: NDArray[np.int32]
    scores: Array
    kept_ptr: NDArray[np.int64]
    kept_items: NDArray[np.int32]
    kept_e: Array
    kept_f: Array
    kept_theta: Array
    spent: NDArray[np.int64]  # ticks of training and of ranking


@part(fastmath=STEADY, error_model="numpy")
def train_client(
    net: Net, own: Own, slots: Any, positives: int, per_positive: int, rule: Rule, streams: Streams, client: Any,
    room: Room, chosen: Any, order: Any, rows: Any, y: Any, by_age: Any, beside: Beside | None,
) -> Any:  # fmt: skip
    """All phases and epochs of one client's round, in the order the plain engine takes; returns its loss."""
    loss, size = F(0), 0
    for phase in range(len(rule.parts)):
        size = choose_part(
            streams.support, client, positives, len(slots), per_positive, rule.parts[phase], chosen
        )
        batch, last = max(size, 1) if rule.at_once else rule.batch, F(0)
        half_life = rule.recency[phase, 0]
        if half_life > 0:
            fill_weights(half_life, rule.recency[phase, 1], by_age[:positives])
        for epoch in range(rule.epochs[phase]):
            fill_order(streams.order, client, 1000 * phase + epoch, order[:size])
            for k in range(size):
                i = chosen[order[k]]
                rows[k] = slots[i]
                y[k] = F(1) if i < positives else F(0)
            loss = F(0)
            for start in range(0, size, batch):
                end = min(start + batch, size)
                for first in range(start, end, rule.batch):  # a mean each
                    after = min(first + rule.batch, end)
                    for k in range(first - start, after - start):
                        room.weights[k] = F(1) / F(after - first)
                if half_life > 0:
                    for k in range(start, end):
                        age = by_age[positive_of(chosen[order[k]], positives, per_positive)]
                        room.aged[k - start] = age * room.weights[k - start]
                wanted = rule.tolerance > 0 or (
                    phase == len(rule.parts) - 1 and epoch == rule.epochs[phase] - 1
                )
                some = rows[start:end]
                mean = step(net, own, some, y[start:end], rule, phase, room, beside, wanted)
                loss += mean * F(end - start)
            loss = loss / F(max(size, 1))
            if rule.tolerance > 0:
                if epoch > 0 and not abs(last - loss) > F(rule.tolerance) * abs(last):
                    break
                last = loss
    if beside is not None:
        beside.a[0] = weigh(net, own, rows[:size], rule.batch, beside, room)
    return loss


@part(fastmath=STEADY, error_model="numpy")
def _begin(own: Own, model: Model, c: int, items: Any) -> None:
    """The client's arrays as it has them before it trains."""
    private = model.private.shape[1]
    for i in range(len(own.theta)):
        own.theta[i] = model.private[c, i] if i < private else model.theta[i]
    for i in range(len(own.m)):
        own.m[i], own.v[i] = model.m[c, i], model.v[c, i]
    for i in range(2):
        own.t[i] = model.t[c, i]
    for row in range(len(items)):
        _put(model.e, items[row], own.e, row)
        _put(model.f, items[row], own.f, row)


@part()
def _put(table: Any, item: int, own: Any, row: int) -> None:
    """A row of a table. Padding is set as well: another client may have left there what is no number."""
    for j in range(table.shape[1]):
        own[row, j] = table[item, j]
    for j in range(table.shape[1], own.shape[1]):
        own[row, j] = F(0)


@part(fastmath=FAST, error_model="numpy")
def _sum(own: Own, rows: int) -> Any:
    """Of all that the client has: finite where everything is."""
    total = F(0)
    for i in range(len(own.theta)):
        total += own.theta[i]
    for i in range(len(own.m)):
        total += own.m[i] + own.v[i]
    for row in range(rows):
        for j in range(own.e.shape[1]):
            total += own.e[row, j]
        for j in range(own.f.shape[1]):
            total += own.f[row, j]
    return total


@part(fastmath=STEADY, error_model="numpy")
def _add_moves(sums: Any, table: Any, own: Any, items: Any, weight: Any) -> None:
    for row in range(len(items)):
        item = items[row]
        prefetch(sums, items[min(row + AHEAD, len(items) - 1)])
        for j in range(table.shape[1]):
            sums[item, j] += weight * (own[row, j] - table[item, j])


@part(fastmath=STEADY, error_model="numpy")
def _end(own: Own, model: Model, c: int, items: Any, out: Outcome) -> None:
    """Keep what was trained, and add the moves of the shared part to the sums."""
    private, weight = model.private.shape[1], model.weights[c]
    for i in range(private):
        model.private[c, i] = own.theta[i]
    for i in range(len(own.m)):
        model.m[c, i], model.v[c, i] = own.m[i], own.v[i]
    for i in range(2):
        model.t[c, i] = own.t[i]
    for i in range(private, len(own.theta)):
        out.theta[i] += weight * (own.theta[i] - model.theta[i])
    _add_moves(out.e, model.e, own.e, items, weight)
    _add_moves(out.f, model.f, own.f, items, weight)


@part(fastmath=STEADY, error_model="numpy")
def _score(
    net: Net, own: Own, model: Model, place: Any, base: int, line: Any, room: Room, scores: Any
) -> None:
    """Scores of a line of items: the client's own rows where it holds some, other shared arrays as downloaded."""
    for i in range(model.private.shape[1], net.size):
        own.theta[i] = model.theta[i]
    prepare(net, own.theta, room.memory)
    for start in range(0, len(line), TILE):
        count = min(TILE, len(line) - start)
        for k in range(count):
            item = max(line[start + k], 0)  # padding
            at = place[item] - base
            for j in range(model.e.shape[1]):
                room.e[spot(k * net.row_stride, j)] = own.e[at, j] if at >= 0 else model.e[item, j]
            for j in range(model.f.shape[1]):
                room.f[spot(k * net.product_stride, j)] = own.f[at, j] if at >= 0 else model.f[item, j]
        forward(net, own.theta, room.memory, room.e, room.f, 0, count)
        for k in range(count):
            scores[start + k] = room.memory.logits[k]


@part(fastmath=STEADY, error_model="numpy")
def _keep(own: Own, model: Model, c: int, items: Any, place: Any, base: int, bits: Any, out: Outcome) -> None:
    """The client's rows in the order of their items, and how far its shared part moved."""
    start = out.kept_ptr[c]
    end = start + len(items)
    out.kept_ptr[c + 1] = end
    ascending(items, bits, out.kept_items[start:end])
    for k in range(start, end):
        row = place[out.kept_items[k]] - base
        for j in range(model.e.shape[1]):
            out.kept_e[k, j] = own.e[row, j]
        for j in range(model.f.shape[1]):
            out.kept_f[k, j] = own.f[row, j]
    private = model.private.shape[1]
    for i in range(out.kept_theta.shape[1]):
        out.kept_theta[c, i] = own.theta[spot(private, i)] - model.theta[spot(private, i)]


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def train_shard(
    net: Net, histories: Histories, users: Ids, streams: Streams, model: Model, rule: Rule, out: Outcome,
    mixing: Mixing | None = None,
) -> int:  # fmt: skip
    """Trains some clients; returns how many rows were sent. Mixed rows are compiled only where there are some."""
    n_items, per_positive, indptr = histories.n_items, histories.per_positive, histories.train_ptr
    most = np.int64(1)
    for u in users:
        most = max(most, (indptr[u + 1] - indptr[u]) * (1 + per_positive))
    free, bits = make_free(n_items), make_bits(n_items)
    place = np.full(n_items, -1, np.int32)  # where a row of this client lies, counted from all rows before it
    base = np.int64(0)
    items, slots, touched = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most + 1, np.int32)
    chosen, order, rows = np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most, np.int32)
    y, by_age = np.empty(most, F), np.empty(most, F)
    by_row = rule.radius_shared > 0 or rule.at_once  # gradients are added up by row
    room = make_room(net, most if by_row else np.int64(0), most if rule.at_once else min(rule.batch, most))
    own = Own(
        np.zeros(net.size, F), np.zeros((most, net.row_stride), F), np.zeros((most, net.product_stride), F),
        np.zeros(model.m.shape[1], F), np.zeros(model.m.shape[1], F), np.zeros(2, F),
    )  # fmt: skip
    beside: Any = None
    if mixing is not None:
        beside = make_beside(
            mixing, most, min(rule.batch, most), net.row, net.product, net.row_stride, net.product_stride
        )
    sent = np.int64(0)
    for c in range(len(users)):
        begin = ticks()
        u = users[c]
        key = histories.keys[u]
        positives = histories.train[indptr[u] : indptr[u + 1]]
        forbidden = histories.not_items[histories.not_ptr[u] : histories.not_ptr[u + 1]]
        n = sample_count(len(positives), len(forbidden), n_items, per_positive)
        fill_samples(streams.negatives, key, positives, forbidden, n_items, free, items[:n])
        held = np.int64(0)
        for i in range(n):  # number the distinct items as they come, without a branch
            item = items[i]
            prefetch(model.e, item)
            at = place[item] - base
            new = at < 0
            at = held if new else at
            place[item] = base + at
            touched[held] = item
            held += new
            slots[i] = at
        mine = touched[:held]
        _begin(own, model, c, mine)
        if mixing is not None:
            receive(mixing.e, u, place, base, own.e[:held], beside.e, mixing.carry)
            receive(mixing.f, u, place, base, own.f[:held], beside.f, mixing.carry)
        loss = train_client(
            net, own, slots[:n], len(positives), per_positive, rule, streams, key, room, chosen, order, rows, y, by_age,
            beside,
        )  # fmt: skip
        out.losses[c] = loss
        # Not np.isfinite: that is x − x == 0, which fastmath may take for granted.
        out.finite[c] = abs(loss + _sum(own, held)) < F(np.inf) and abs(loss) < F(WILD)
        if out.finite[c]:
            _end(own, model, c, mine, out)
            if mixing is not None:
                mixing.weights[c] = beside.a[0]
            sent += held
        else:  # dropped: the device is as before the round
            _begin(own, model, c, mine)
            if mixing is not None:
                put_back(mixing.e, u, place, base, own.e[:held])
                put_back(mixing.f, u, place, base, own.f[:held])
        if len(out.kept_ptr):
            _keep(own, model, c, mine, place, base, bits, out)
        trained = ticks()
        if len(out.lines):
            _score(net, own, model, place, base, out.lines[c], room, out.scores[c])
        base += held
        if base > FULL:  # numbers run out: start again
            place[:] = -1
            base = np.int64(0)
        out.spent[0] += trained - begin
        out.spent[1] += ticks() - trained
    return sent  # type: ignore[return-value]


@nb.njit(cache=True, nogil=True, fastmath=STEADY, error_model="numpy")
def score_lines(net: Net, model: Model, own_e: Any, own_f: Any, items: Any, out: Any) -> None:
    """Scores of a line of items per client, or of the whole catalogue where ``items`` is empty.

    ``own_*``: the clients' own rows, by which clients, which items, and the rows themselves.
    """
    theta, private = model.theta.copy(), model.private.shape[1]
    room = make_room(net, np.int64(0), np.int64(1))
    for c in range(len(out)):
        for i in range(private):
            theta[i] = model.private[c, i]
        prepare(net, theta, room.memory)
        for start in range(0, out.shape[1], TILE):
            count = min(TILE, out.shape[1] - start)
            for k in range(count):
                item = max(items[c, start + k], 0) if len(items) else start + k
                _one_row(model.e, own_e, c, item, room.e[k * net.row_stride :])
                _one_row(model.f, own_f, c, item, room.f[k * net.product_stride :])
            forward(net, theta, room.memory, room.e, room.f, 0, count)
            for k in range(count):
                out[c, start + k] = room.memory.logits[k]


@part()
def _one_row(table: Any, own: Any, c: int, item: int, out: Any) -> None:
    indptr, owned, values = own
    if len(indptr):
        first, end = indptr[c], indptr[c + 1]
        at = first + np.searchsorted(owned[first:end], item)
        if at < end and owned[at] == item:
            for j in range(values.shape[1]):
                out[j] = values[at, j]
            return
    for j in range(table.shape[1]):
        out[j] = table[item, j]
