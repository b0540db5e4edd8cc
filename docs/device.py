"""A device in plain NumPy: reads an exported run, makes its private part from liked items, and ranks.

    python docs/device.py model.safetensors 3 14 15

No fedrec in it: docs/export.md says what every field means.
"""

import json
import sys

import numpy as np

KINDS = {"F32": "<f4", "I32": "<i4", "I64": "<i8"}


def read(path):
    """The arrays of a file by name, and what it says about them."""
    with open(path, "rb") as file:
        raw = file.read()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    about = header.pop("__metadata__")
    arrays = {}
    for name, x in header.items():
        count, start = int(np.prod(x["shape"])), 8 + size + x["data_offsets"][0]
        arrays[name] = np.frombuffer(raw, KINDS[x["dtype"]], count, start).reshape(x["shape"])
    return arrays, about


def recommend(path, likes, k=10):
    """The k best items (ids) that are not among the liked ones, and their scores."""
    arrays, about = read(path)
    ids, recipe = json.loads(about["items"]), json.loads(about["recipe"])
    likes = [ids.index(item) for item in likes]
    likes = [*dict.fromkeys(likes[::-1])][::-1]  # named twice: as new as where it is named last
    scores = rank(arrays, recipe, likes)
    best = [i for i in np.argsort(-scores, kind="stable") if i not in likes][:k]
    return [ids[i] for i in best], scores[best]


def rank(arrays, recipe, likes):
    """A score for every item; likes are places in the list of items, the newest last."""
    if not likes:
        return arrays["popularity"].astype(np.float32)
    private, score = recipe["private"], recipe["score"]
    if score[0] == "same":
        return arrays[score[1]]
    if score[0] == "sum":
        return arrays[score[1]][likes].sum(axis=0)
    if score[0] == "sum_sparse":
        weights, columns, ends = (arrays[name] for name in score[1:])
        total = np.zeros(len(ends) - 1, np.float32)
        for i in likes:
            mine = slice(ends[i], ends[i + 1])
            total[columns[mine]] += weights[mine]
        return total
    p = {**arrays, **(solved(arrays, private, likes) if private["how"] == "solve" else {})}
    if private["how"] == "train":
        p = trained(arrays, recipe, likes)
    return forward(score, p, np.arange(len(arrays["popularity"])))[0].reshape(-1)


# -- a vector in closed form ---------------------------------------------------------------------


def solved(arrays, private, likes):
    own, gram = arrays[private["items"]][likes], arrays[private["gram"]]
    alpha, lam = private["alpha"], private["lam"] * len(likes) ** private["scale"]
    prior = arrays[private["prior"]] if private["prior"] else 0.0
    a = gram + alpha * own.T @ own + lam * np.eye(len(gram))
    ages = np.arange(len(likes))[::-1]
    aim = by_age(ages, *arrays[private["recency"]]) if private["recency"] else np.ones(len(likes))
    made = {private["vector"]: np.linalg.solve(a, (1 + alpha) * aim @ own + lam * prior).astype(np.float32)}
    if private["next"]:
        decays, weight = private["next"]["decays"], arrays[private["next"]["weight"]]
        unit = own / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), private["next"]["shortest"])
        context = np.concatenate([*((1 - g) * g ** ages.astype(float) @ unit for g in decays), [1.0]])
        made[private["next"]["context"]] = (weight * context).astype(np.float32)
    return made


def by_age(ages, half_life, floor):
    return floor + (1 - floor) * 0.5 ** (ages / half_life)


# -- scores, and the way back for gradients ------------------------------------------------------


def forward(e, p, i):
    """The value of an expression for items i, and a function that adds its gradient to ``out``."""
    kind, *rest = e
    if kind == "rows":

        def back(g, out):
            for name in rest:
                if name in out:
                    np.add.at(out[name], i, g)

        return sum(p[name][i] for name in rest), back
    if kind == "vector":
        (name,) = rest
        return np.broadcast_to(p[name], (len(i), *p[name].shape)), lambda g, out: add(
            out, name, g.sum(axis=0)
        )
    if kind == "join":
        parts = [forward(x, p, i) for x in rest]
        ends = np.cumsum([value.shape[1] for value, _ in parts])[:-1]

        def back(g, out):
            for (_, b), piece in zip(parts, np.split(g, ends, axis=1), strict=True):
                b(piece, out)

        return np.concatenate([value for value, _ in parts], axis=1), back
    if kind == "plus":
        parts = [forward(x, p, i) for x in rest]
        return sum(value for value, _ in parts), lambda g, out: [b(g, out) for _, b in parts]
    if kind == "times":
        name, (x, before) = rest[0], forward(rest[1], p, i)

        def back(g, out):
            add(out, name, (g * x).sum(axis=0))
            before(g * p[name], out)

        return x * p[name], back
    if kind == "relu":
        x, before = forward(rest[0], p, i)
        return np.maximum(x, 0), lambda g, out: before(g * (x > 0), out)
    weights, bias, (x, before) = rest[0], rest[1], forward(rest[2], p, i)
    w = p[weights].reshape(-1, x.shape[1])  # "linear": a vector has one output

    def back(g, out):
        add(out, weights, (g.T @ x).reshape(p[weights].shape))
        if bias is not None:
            add(out, bias, g.sum(axis=0).reshape(p[bias].shape))
        before(g @ w, out)

    return x @ w.T + (0 if bias is None else p[bias]), back


def add(out, name, g):
    if name in out:
        out[name] = out[name] + g


# -- randomness: counters, nothing is kept between draws -----------------------------------------

MASK, GOLDEN = (1 << 64) - 1, 0x9E3779B97F4A7C15


def below(key, k, n):
    """The k-th number of a stream (SplitMix64), in [0, n)."""
    x = (key + (k + 1) * GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return (((x ^ (x >> 31)) >> 32) * n) >> 32


def negatives(key, likes, n_items, count):
    """Items that are not liked, drawn with replacement."""
    if len(likes) >= n_items:
        return []
    if 2 * len(likes) > n_items:
        free = sorted(set(range(n_items)) - set(likes))
        return [free[below(key, k, len(free))] for k in range(count)]
    found, k, liked = [], 0, set(likes)
    while len(found) < count:
        item = below(key, k, n_items)
        found += [] if item in liked else [item]
        k += 1
    return found


def order(key, n):
    """Fisher-Yates: the order in which an epoch visits n samples."""
    places = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = below(key, i, i + 1)
        places[i], places[j] = places[j], places[i]
    return places


# -- training ------------------------------------------------------------------------------------


def trained(arrays, recipe, likes):
    """The file's arrays and the device's own, after all passes."""
    private, n_items = recipe["private"], len(arrays["popularity"])
    p, state = dict(arrays), {}
    for name, start in private["start"].items():
        shape = private["shapes"][name]
        p[name] = arrays[start] if isinstance(start, str) else np.full(shape, start, np.float32)
    for turn in private["passes"]:
        drawn = negatives(
            int(turn["negatives"], 16), likes, n_items, len(likes) * private["negatives_per_positive"]
        )
        items = np.array([*likes, *drawn])
        labels = (np.arange(len(items)) < len(likes)).astype(np.float32)
        before, kept = dict(p), dict(state)
        loss = 0.0
        for phase in turn["phases"]:
            loss = one_phase(p, state, recipe, phase, items, labels)
        if not (abs(loss) < private["wild"] and all(np.isfinite(p[n]).all() for n in private["start"])):
            p, state = before, kept  # it ran away: forgotten
    return p


def one_phase(p, state, recipe, phase, items, labels):
    """Epochs over the samples; p and state are changed; returns the loss of the last epoch."""
    private = recipe["private"]
    for group in phase["groups"]:
        for name in group["names"]:
            if name not in state or not group.get("keeps"):
                state[name] = (0, 0.0, 0.0)  # steps taken, and Adam's two moments
    last = total = 0.0
    weights = np.ones(len(items), np.float32)
    if phase["recency"]:
        n = int(labels.sum())
        weights[:n] = by_age(np.arange(n)[::-1], *phase["recency"])
        weights[:n] /= weights[:n].mean()
        weights[n:] = np.repeat(weights[:n], private["negatives_per_positive"])[: len(items) - n]
    for epoch, key in enumerate(phase["orders"]):
        at, total = order(int(key, 16), len(items)), 0.0
        size = len(at) if private["one_step"] else private["batch"]
        for start in range(0, len(at), size):
            batch = at[start : start + size]
            value, grads = gradients(p, recipe, phase, items[batch], labels[batch], weights[batch])
            for group in phase["groups"]:
                for name in group["names"]:
                    step(
                        p,
                        state,
                        group,
                        name,
                        grads[name],
                        np.unique(items) if name in private["rows"] else ...,
                    )
            total += value * len(batch) / len(at)
        if epoch > 0 and private["tolerance"] > 0 and abs(last - total) <= private["tolerance"] * abs(last):
            break
        last = total
    return total


def gradients(p, recipe, phase, items, labels, weights):
    """The loss of a batch and its gradient in what the phase moves, perhaps a little further along itself."""
    names = [name for group in phase["groups"] for name in group["names"]]
    value, grads = gradient(p, recipe, phase, items, labels, weights, names)
    radius = recipe["private"]["radius"]
    if radius > 0:
        norm = np.sqrt(sum((g**2).sum() for g in grads.values())) + 1e-12
        there = {**p, **{name: p[name] + radius * grads[name] / norm for name in names}}
        _, grads = gradient(there, recipe, phase, items, labels, weights, names)
    return value, grads


def gradient(p, recipe, phase, items, labels, weights, names):
    private = recipe["private"]
    x, back = forward(recipe["score"], p, items)
    x = x.reshape(-1)
    size = private["batch"]  # in one step: a sum of means over so many samples each
    counts = [min(size, len(x) - start) for start in range(0, len(x), size)]
    share = weights * (1 / np.repeat(counts, counts)).astype(np.float32)
    value = float(((np.maximum(x, 0) - x * labels + np.log1p(np.exp(-np.abs(x)))) * share).sum())
    grads = {name: np.zeros_like(p[name]) for name in names}
    with np.errstate(over="ignore"):
        back(((1 / (1 + np.exp(-x)) - labels) * share).reshape(len(x), -1), grads)
    for term in private["terms"]:
        weight, tables = phase["terms"][term["weight"]], [p[name][items] for name in term["tables"]]
        entries = tables[0].size
        if term["kind"] == "apart":
            apart = tables[0] - tables[1]
            value -= weight * float((apart**2).sum()) / entries
            if term["tables"][0] in grads:
                np.add.at(grads[term["tables"][0]], items, -2 * weight / entries * apart)
        else:
            sizes = np.abs(tables[0]) if term["kind"] == "l1" else tables[0] ** 2
            value += weight * float(sizes.sum()) / entries
    return value, grads


def step(p, state, group, name, g, held):
    """One step of an array; of a table, of the rows held in this pass."""
    t, m, v = state[name]
    x, g = p[name][held], g[held]
    if group["optimizer"] == "Adam":
        b1, b2 = group["beta1"], group["beta2"]
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        mean, spread = m / (1 - b1 ** (t + 1)), v / (1 - b2 ** (t + 1))
        move = group["lr"] * mean / (np.sqrt(spread) + group["epsilon"])
    else:  # SGD, or DecayingSGD: the rate falls with every step, and weights decay
        rate = group["lr"] * group.get("decay", 1.0) ** t
        move = rate * (g + group.get("weight_decay", 0.0) * x)
    p[name] = p[name].copy()
    p[name][held] = x - move
    state[name] = (t + 1, m, v)


if __name__ == "__main__":
    found = recommend(sys.argv[1], [int(text) if text.isdigit() else text for text in sys.argv[2:]])
    for item, score in zip(*found, strict=True):
        print(f"{score:9.4f}  {item}")
