"""FedPerGNN's graph layer and its gradient for one client, next to the formulas.

A client u has items o with rows e_o, and neighbours k with vectors n_k, linked to the items that they met (with ℓ for
a leaky ReLU, and h_o, v as the method's ``propagate`` has them):

    q_o = e_o·Wa,  a_o = e_o·Wc,  b_k = n_k·Wc           with a, c for ``ask`` and ``answer``
    α_o ~ softmax of [ℓ(q_o + a_o), ℓ(q_o + b_k) for linked k],   h_o = α_o0 e_oW + Σ_k α_ok n_kW
    β   ~ softmax of [ℓ(u·Wa + u·Wc), ℓ(u·Wa + t_o)],             t_o = h_o·c = α_o0 a_o + Σ_k α_ok b_k
    v   = u + β_0 uW + Σ_o β_o h_o = u + E_v W,                   E_v = β_0 u + Σ_o β_o α_o0 e_o + Σ_k B_k n_k

with B_k = Σ_o β_o α_ok: no item is ever put through W by itself. Back from a gradient ∂v, with D = W ∂v:

    ∂β_o = α_o0 e_o·D + Σ_k α_ok n_k·D,   g_o = β_o (∂β_o − Σ β ∂β) ℓ',   g_0 alike with ∂β_0 = u·D,   A = Σ g
    p_ok = α_ok (β_o n_k·D + g_o b_k − β_o ∂β_o − g_o t_o) ℓ',            p_o0 alike with e_o·D and a_o
    E_a  = A u + Σ_o (Σ_k p_ok) e_o,      E_c = g_0 u + Σ_o (α_o0 g_o + p_o0) e_o + Σ_k Σ_o (α_ok g_o + p_ok) n_k
    ∂W   = E_v ∂vᵀ + E_a aᵀ + E_c cᵀ,     ∂a = E_a W,   ∂c = E_c W
    ∂u   = ∂v + β_0 D + A Wa + g_0 Wc,    ∂e_o = α_o0 β_o D + (Σ_k p_ok) Wa + (α_o0 g_o + p_o0) Wc
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba as nb
import numpy as np

from fedrec.core.compiled import part
from fedrec.core.entropy import FAST, STEADY, F, exp_negative
from fedrec.core.slots import Array
from fedrec.core.sums import dot, total_of

SLOPE = F(0.2)  # of a leaky ReLU below 0


class Layer(NamedTuple):
    """W, a and c."""

    weight: Array
    ask: Array
    answer: Array


class Heard(NamedTuple):
    """What the layer leaves behind for the way back; by item, by neighbour, or of the length of a vector."""

    w_ask: Array  # Wa
    w_answer: Array  # Wc
    q: Array
    a: Array
    b: Array
    alone: Array  # α_o0
    alpha: Array  # α_ok
    t: Array
    beta: Array
    mine: Array  # β_0, u·Wa, u·Wc
    e_v: Array
    vector: Array  # v
    # The way back.
    d: Array  # D
    c: Array  # n_k·D
    g: Array
    back: Array  # Σ_o (α_ok g_o + p_ok)
    slopes: Array  # ∂β_o
    e_ask: Array
    e_answer: Array
    p: Array  # p_ok of an item
    on: Array  # of each item: factors of D, Wa and Wc in its gradient


@part()
def make_heard(items: int, others: int, dim: int) -> Heard:
    def line(n: int) -> Any:
        return np.zeros(n, F)

    return Heard(
        line(dim), line(dim), line(items), line(items), line(others), line(items), np.zeros((items, others), F),
        line(items), line(items), line(3), line(dim), line(dim), line(dim), line(others), line(items),
        line(others), line(items), line(dim), line(dim), line(others), np.zeros((items, 3), F),
    )  # fmt: skip


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def _leaky(x: Any) -> Any:
    return x if x > F(0) else SLOPE * x


@nb.njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy", inline="always")
def _slope(x: Any) -> Any:
    return F(1) if x > F(0) else SLOPE


@part(fastmath=STEADY, error_model="numpy")
def add(to: Any, factor: Any, x: Any) -> None:
    """to += factor · x."""
    for j in range(len(to)):
        to[j] += factor * x[j]


@part(fastmath=STEADY, error_model="numpy")
def _through(x: Any, weight: Any, out: Any) -> None:
    """xW."""
    out[:] = F(0)
    for i in range(len(x)):
        add(out, x[i], weight[i])


@part(fastmath=STEADY, error_model="numpy")
def _hear(q: Any, a: Any, b: Any, links: Any, alpha: Any) -> Any:
    """The attention of an item: fills α_ok in, returns α_o0 and t_o."""
    top = _leaky(q + a)
    for k in range(len(b)):
        top = max(top, _leaky(q + b[k]) if links[k] > F(0) else top)
    alone = exp_negative(_leaky(q + a) - top)
    total, told = alone, alone * a
    for k in range(len(b)):
        weight = exp_negative(min(_leaky(q + b[k]) - top, F(0)))
        alpha[k] = weight if links[k] > F(0) else F(0)
    total, told = total + total_of(alpha), told + dot(alpha, b)
    scale = F(1) / total
    for k in range(len(b)):
        alpha[k] *= scale
    return alone * scale, told * scale


@part(fastmath=STEADY, error_model="numpy")
def propagate(layer: Layer, user: Any, rows: Any, own: Any, nearby: Any, links: Any, h: Heard) -> None:
    """The user after the layer, as ``h.vector``; ``own`` says which rows are of the client's items."""
    for i in range(len(user)):
        h.w_ask[i], h.w_answer[i] = dot(layer.weight[i], layer.ask), dot(layer.weight[i], layer.answer)
    for k in range(len(nearby)):
        h.b[k] = dot(nearby[k], h.w_answer)
    to, of = dot(user, h.w_ask), dot(user, h.w_answer)
    first = top = _leaky(to + of)
    for o in range(len(own)):
        row = rows[own[o]]
        h.q[o], h.a[o] = dot(row, h.w_ask), dot(row, h.w_answer)
        line = links[min(o, len(links) - 1)]
        h.alone[o], h.t[o] = _hear(h.q[o], h.a[o], h.b, line, h.alpha[o])
        top = max(top, _leaky(to + h.t[o]))
    first = exp_negative(first - top)
    for o in range(len(own)):
        h.beta[o] = exp_negative(_leaky(to + h.t[o]) - top)
    total = first + total_of(h.beta[: len(own)])  # in a loop of its own: see STEADY
    h.mine[0], h.mine[1], h.mine[2] = first / total, to, of
    heard = h.back
    heard[:], h.e_v[:] = F(0), F(0)
    add(h.e_v, h.mine[0], user)
    for o in range(len(own)):
        h.beta[o] /= total
        add(h.e_v, h.beta[o] * h.alone[o], rows[own[o]])
        add(heard, h.beta[o], h.alpha[o])
    for k in range(len(nearby)):
        add(h.e_v, heard[k], nearby[k])
    _through(h.e_v, layer.weight, h.vector)
    add(h.vector, F(1), user)


@part(fastmath=STEADY, error_model="numpy")
def _answer_back(q: Any, b: Any, c: Any, alpha: Any, beta: Any, g: Any, mean: Any, p: Any) -> None:
    """p_ok of an item."""
    for k in range(len(b)):
        p[k] = alpha[k] * (beta * c[k] + (g * b[k] - mean)) * _slope(q + b[k])


@part(fastmath=STEADY, error_model="numpy")
def pull_back(
    layer: Layer, user: Any, rows: Any, own: Any, nearby: Any, dv: Any, h: Heard, d_layer: Layer, d_user: Any,
    d_rows: Any,
) -> None:  # fmt: skip
    """The gradient from that of the vector: written to ``d_layer`` and ``d_user``, added to ``d_rows``."""
    share, to, of = h.mine[0], h.mine[1], h.mine[2]
    for i in range(len(user)):
        h.d[i] = dot(layer.weight[i], dv)
    for k in range(len(nearby)):
        h.c[k] = dot(nearby[k], h.d)
    slope = dot(user, h.d)
    mean = share * slope
    for o in range(len(own)):
        h.slopes[o] = h.alone[o] * dot(rows[own[o]], h.d) + dot(h.alpha[o], h.c)
        mean += h.beta[o] * h.slopes[o]
    g_user = share * (slope - mean) * _slope(to + of)
    asked = g_user
    h.back[:], h.e_ask[:], h.e_answer[:] = F(0), F(0), F(0)
    add(h.e_answer, g_user, user)
    for o in range(len(own)):
        row, beta, alone = rows[own[o]], h.beta[o], h.alone[o]
        g = beta * (h.slopes[o] - mean) * _slope(to + h.t[o])
        asked += g
        average = beta * h.slopes[o] + g * h.t[o]
        p = alone * (beta * dot(row, h.d) + g * h.a[o] - average) * _slope(h.q[o] + h.a[o])
        _answer_back(h.q[o], h.b, h.c, h.alpha[o], beta, g, average, h.p)
        add(h.back, F(1), h.p)
        add(h.back, g, h.alpha[o])
        h.on[o, 0], h.on[o, 1], h.on[o, 2] = alone * beta, p + total_of(h.p), alone * g + p
        add(h.e_ask, h.on[o, 1], row)
        add(h.e_answer, h.on[o, 2], row)
    add(h.e_ask, asked, user)
    for k in range(len(nearby)):
        add(h.e_answer, h.back[k], nearby[k])
    for i in range(len(dv)):
        d_user[i] = dv[i]
    d_layer.weight[:] = F(0)
    add(d_user, share, h.d)
    add(d_user, asked, h.w_ask)
    add(d_user, g_user, h.w_answer)
    for i in range(len(user)):
        add(d_layer.weight[i], h.e_v[i], dv)
        add(d_layer.weight[i], h.e_ask[i], layer.ask)
        add(d_layer.weight[i], h.e_answer[i], layer.answer)
    _through(h.e_ask, layer.weight, d_layer.ask)
    _through(h.e_answer, layer.weight, d_layer.answer)
    for o in range(len(own)):
        add(d_rows[own[o]], h.on[o, 0], h.d)
        add(d_rows[own[o]], h.on[o, 1], h.w_ask)
        add(d_rows[own[o]], h.on[o, 2], h.w_answer)
