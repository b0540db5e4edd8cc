"""What a round of a method asks for at the least, whoever computes it.

Per sample of a pass a log-linear round cannot avoid an inner product and an exponential (twice where the parts move in
turn), an addition of a scaled row for each part that moves, and a random number for its place in the shuffle; one per
negative; and, per touched row, reading it from the table and adding its move to the sums, and reading and writing it
where the device keeps it. A round of a small network has products of matrices instead: the layers, the way back
through them, and the gradients of the layers and of the rows where those move. Other kernels: see each one below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from fedrec.core.federated import Federated
from fedrec.core.kernel import Additive, Attention, Encoded, Generated, LeastSquares, LogLinear, Mixed, Mlp
from fedrec.core.slots import Catalog, Slot

READ_AND_ADDED, KEPT = 3, 2  # of a row: read, its sum read and written; read and written on the device


@dataclass(frozen=True)
class Round:
    """How large a round of everybody is: sums over the clients."""

    clients: int
    samples: float
    positives: float
    rows: float  # touched


@dataclass(frozen=True)
class Work:
    """What a round asks for, over all clients."""

    negatives: float = 0.0  # random draws
    places: float = 0.0  # of shuffles
    flops: float = 0.0  # of inner products and additions of scaled rows
    products: float = 0.0  # flops of products of matrices
    exponentials: float = 0.0
    numbers: float = 0.0  # read from memory or written to it


def work_of(method: Federated, catalog: Catalog, size: Round) -> Work | None:
    form = method.kernel(catalog)
    if isinstance(form, LogLinear | Mlp | Mixed):
        return _descent(form, method, catalog, size)
    if isinstance(form, Additive):
        return _additive(form, method, catalog, size)
    if isinstance(form, LeastSquares):
        return _least_squares(form, method, catalog, size)
    if isinstance(form, Attention):
        return _attention(form, method, catalog, size)
    if isinstance(form, Encoded):
        return _encoded(form, method, catalog, size)
    return _generated(form, method, catalog, size) if isinstance(form, Generated) else None


def _additive(form: Additive, method: Federated, catalog: Catalog, size: Round) -> Work:
    """Inner products with the sum of two rows; vector, common and personal row move."""
    (dim,) = method.slots(catalog)[form.vector].shape
    seen = size.samples * sum(phase.epochs for phase in method.plan(catalog, 1))
    parts = (form.common is not None) + (form.personal is not None)
    numbers = (
        size.rows * dim * ((form.common is not None) * READ_AND_ADDED + (form.personal is not None) * KEPT)
    )
    flops = seen * dim * (2.0 + parts - 1 + 2 * (1 + parts))
    return Work(size.samples - size.positives, seen, flops, exponentials=seen, numbers=numbers)


def _least_squares(form: LeastSquares, method: Federated, catalog: Catalog, size: Round) -> Work:
    """The system applied once, though a solver needs it several times; w wᵀ of everybody; a correction a positive."""
    dim = method.slots(catalog)[form.items].shape[1]
    products = 2.0 * size.clients * dim * dim
    return Work(
        flops=6.0 * size.positives * dim, products=products, numbers=size.positives * dim * READ_AND_ADDED
    )


def _attention(form: Attention, method: Federated, catalog: Catalog, size: Round) -> Work | None:
    """Scores and two sums of scaled rows a touched row; a positive hears from each neighbour, back, and once more.

    Made-up gradients and noise are what leaves, and not counted.
    """
    service = method.service(catalog, 0)
    if service is None:
        return None
    others, dim = service.given[form.nearby].shape
    heard = size.positives * others
    flops = 2.0 * dim * (3 * size.rows + 16 * size.positives) + 16.0 * heard
    numbers = size.rows * dim * READ_AND_ADDED + size.clients * others * dim
    return Work(size.samples - size.positives, 0.0, flops, 0.0, size.rows + 2 * heard, numbers)


def _encoded(form: Encoded, method: Federated, catalog: Catalog, size: Round) -> Work:
    """A score and two sums of scaled rows a touched row; half of the positives are encoded, and their rows moved."""
    hidden = method.slots(catalog)[form.encoder].shape[1]
    encoders, encoded = (2 if form.own else 1), size.positives / 2
    flops = 2.0 * hidden * (3 * size.rows + 2 * encoded * encoders)
    numbers = (size.rows + encoded) * hidden * READ_AND_ADDED
    numbers += size.positives * hidden * KEPT * (encoders - 1)
    return Work(size.samples - size.positives, 0.0, flops, 0.0, size.rows, numbers)


def _generated(form: Generated, method: Federated, catalog: Catalog, size: Round) -> Work | None:
    """A row is made by a layer, goes through the predictor, and back through both.

    In each of its turns the server reads its network, and reads and writes that and two moments.
    """
    service, uploads = method.service(catalog, 0), method.uploads(catalog)
    if service is None:
        return None
    slots = method.slots(catalog)
    rank, dim = service.given[form.right].shape
    hidden = service.given[form.weights[0]].shape[1]
    largest = max(
        (s.shape for s in service.sums.values() if len(s.shape) == 2), key=lambda shape: shape[0] * shape[1]
    )
    each = 3.0 * (rank * largest[1] + rank * dim + dim * hidden)
    held = sum(_count(slots[n].shape) for n in service.sums)
    return Work(
        size.samples - size.positives, 0.0, 0.0, 2.0 * size.rows * each, size.rows, 8.0 * uploads.turns * held
    )


def _count(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def _descent(form: LogLinear | Mlp | Mixed, method: Federated, catalog: Catalog, size: Round) -> Work:
    """Steps of SGD over batches."""
    slots = method.slots(catalog)
    declared = form.base if isinstance(form, Mixed) else form
    shared = {mine: name for name, mine in form.local} if isinstance(form, Mixed) else {}
    places = flops = products = exponentials = 0.0
    for phase in method.plan(catalog, 1):
        seen = size.samples * phase.epochs * (1.0 if phase.part == "all" else 0.5)
        names = {shared.get(n, n) for g in phase.groups for n in g.names}
        places += seen
        if isinstance(declared, LogLinear):
            looks = len(phase.groups) if declared.in_turn else 1
            flops += 2.0 * seen * slots[declared.items].shape[1] * (looks + len(phase.groups))
        else:
            looks, each = _network(declared, slots, names)
            products += seen * each
        exponentials += seen * looks
        if isinstance(form, Mixed):
            more = _mixture(form, declared, slots, names, looks)
            flops, products, exponentials = (
                a + seen * b for a, b in zip((flops, products, exponentials), more, strict=True)
            )
    tables = [
        declared.items,
        *(declared.product[1:] if isinstance(declared, Mlp) and declared.product else ()),
    ]
    each_row = READ_AND_ADDED + (KEPT if isinstance(form, Mixed) else 0)
    numbers = each_row * size.rows * sum(slots[n].shape[1] for n in tables)
    return Work(size.samples - size.positives, places, flops, products, exponentials, numbers)


def _network(declared: Mlp, slots: dict[str, Slot], moved: set[str]) -> tuple[int, float]:
    """How often a sample passes through the layers, and the flops of all that."""
    widths = [slots[declared.items].shape[1], *(slots[n].shape[0] for n in declared.weights[:-1])]
    inner = sum(a * b for a, b in pairwise(widths[1:])) + slots[declared.weights[-1]].shape[-1]
    first = widths[0] * widths[1]
    private = {n for n in moved if slots[n].owner != "shared"}
    turns = [private, moved - private] if declared.in_turn else [moved]
    looks, total = 0, 0.0
    for names in filter(None, turns):
        mine, ours = names & private, names - private
        sharp = [(declared.radius_private, mine), (declared.radius_shared, ours)]
        for part in [names, *(part for radius, part in sharp if radius > 0 and part)]:
            looks += 1
            total += first + 2 * inner  # through the layers, and back through all but the first
            total += first + inner if part & set(declared.weights) else 0
            total += first if declared.items in part else 0
    return looks, 2.0 * total


def _mixture(
    form: Mixed, declared: LogLinear | Mlp, slots: dict[str, Slot], moved: set[str], looks: int
) -> tuple[float, float, float]:
    """What mixed rows add to a sample: flops, flops of products, exponentials.

    The score with the other table at each look; where a follows from both, what it would be with either row; and
    two products of a sample's row with a square matrix where the redundancy loss moves rows.
    """
    widths = [slots[name].shape[1] for name, _ in form.local]
    flops = products = exponentials = 0.0
    if isinstance(declared, LogLinear):
        flops = 2.0 * widths[0] * (looks + (declared.vector in moved))
    elif form.share is None:
        _, each = _network(replace(declared, in_turn=False), slots, {declared.items})
        products = 2.0 * each * looks
    if form.share is None:
        exponentials = 2.0 * looks
    if form.redundancy > 0 and moved & {name for name, _ in form.local}:
        products += sum(4.0 * width * width for width in widths)
    return flops, products, exponentials
