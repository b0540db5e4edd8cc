"""The compiled network against PyTorch: logits, and the gradient in every array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec.core.network import gradient, make_memory, make_net, places, prepare, scores
from fedrec.core.products import stride

torch = pytest.importorskip("torch")


def padded_rows(rows: np.ndarray) -> np.ndarray:
    """Rows as the network takes them: one after another with their padding, and room for a last tile."""
    flat = np.zeros((len(rows) + 64, stride(rows.shape[1])), np.float32)
    flat[: len(rows), : rows.shape[1]] = rows
    return flat.reshape(-1)


def back(flat: np.ndarray, rows: np.ndarray) -> np.ndarray:
    width = rows.shape[1]
    return flat.reshape(len(rows) + 64, -1)[: len(rows), :width]


@given(
    vector=st.integers(0, 40),
    row=st.integers(1, 40),
    product=st.integers(0, 20),
    hidden=st.lists(st.integers(1, 37), min_size=1, max_size=4),
    samples=st.integers(0, 150),
    parts=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    seed=st.integers(0, 9),
)
def test_network_is_that_of_pytorch(
    vector: int, row: int, product: int, hidden: list[int], samples: int, parts: tuple[bool, bool, bool], seed: int
) -> None:  # fmt: skip
    rng = np.random.default_rng(seed)
    net = make_net(vector, row, product, tuple(hidden))
    where = places(net)
    theta = np.zeros(net.size, np.float32)
    arrays = {}
    for name, at in where.items():
        theta[at] = rng.normal(size=at.shape) / np.sqrt(max(at.shape[-1], 1) if at.ndim else 1)
        arrays[name] = torch.from_numpy(theta[at].astype(np.float64)).requires_grad_()
    assert sum(at.size for at in where.values()) == len(
        np.unique(np.concatenate([a.ravel() for a in where.values()]))
    )
    e, f = (rng.normal(size=(samples, width)).astype(np.float32) for width in (row, product))
    y = rng.integers(0, 2, samples).astype(np.float32)
    weights = rng.uniform(0.1, 1, samples).astype(np.float32)

    rows = [torch.from_numpy(x.astype(np.float64)).requires_grad_() for x in (e, f)]
    h = torch.cat([arrays["vector", 0].expand(samples, vector), rows[0]], dim=1)
    for layer in range(len(hidden)):
        h = torch.relu(h @ arrays["weights", layer].T + arrays["biases", layer])
    last = len(hidden)
    x = (
        torch.cat([arrays["vector", 1] * rows[1], h], dim=1) @ arrays["weights", last]
        + arrays["biases", last]
    )
    terms = torch.nn.functional.binary_cross_entropy_with_logits(
        x, torch.from_numpy(y).double(), reduction="none"
    )
    loss = (terms * torch.from_numpy(weights)).sum()
    loss.backward()

    flat_e, flat_f = padded_rows(e), padded_rows(f)
    memory, g = make_memory(net, samples), np.full(net.size, 7, np.float32)
    prepare(net, theta, memory)
    scores(net, theta, memory, flat_e, flat_f, samples)
    np.testing.assert_allclose(memory.logits[:samples], x.detach(), rtol=1e-4, atol=1e-5)
    before = flat_e.copy()
    vectors, layers, moves = parts
    value = gradient(net, theta, memory, flat_e, flat_f, y, weights, vectors, layers, moves, g)
    assert value == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
    for name, at in where.items():
        if vectors if name[0] == "vector" else layers:
            np.testing.assert_allclose(g[at], arrays[name].grad, rtol=1e-3, atol=1e-4, err_msg=str(name))
    if moves:
        for found, given_rows, expected in ((flat_e, e, rows[0]), (flat_f, f, rows[1])):
            np.testing.assert_allclose(back(found, given_rows), expected.grad, rtol=1e-3, atol=1e-5)
    else:
        np.testing.assert_array_equal(flat_e, before)
    padding = np.setdiff1d(np.arange(net.size), np.concatenate([at.ravel() for at in where.values()]))
    if layers:
        assert not g[padding].any(), "padding never moves"
