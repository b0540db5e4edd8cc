"""`demo`: a made film club with the shape of MovieLens-100K and a known best ranking.

A film has a fame and a mix of genres. A user likes a few genres, and by the last visit others than at
first; they begin with the famous films and care less for fame as they go. At every visit the user draws
films not seen yet, each with a chance proportional to

    fame of the film ** (1 - fade) × (indifference + taste of the user now · genres of the film) ** sharpness

so this weight, at the user's last visit, is the best possible score: the next film is drawn from it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedrec.core.rng import generator
from fedrec.data.interactions import Interactions
from fedrec.data.worlds.activity import long_tailed_counts
from fedrec.data.worlds.titles import GENRES, invent_titles
from fedrec.data.worlds.world import Best, World

USERS, ITEMS, ROWS = 950, 1_700, 100_000
FEWEST, MOST = 20, 700  # films of one user
VISITS = 6  # in which a user meets all their films; taste stands still within one
FAME = 2.3  # spread of the films' fame (of its logarithm)
FADE = 0.33  # how much of it has stopped to count by the last visit
DRIFT = 0.7  # the part of a taste that is new by the last visit
INDIFFERENCE = 0.06

DAY = 86_400
OPENING = 946_684_800  # the club's first day, in seconds


def demo(seed: int = 0) -> Interactions:
    """950 users, 1,700 films, 100,000 rows. The same seed gives the same world on every machine."""
    return demo_world(seed).data


def demo_world(seed: int = 0) -> World:
    """`demo` together with its best ranking."""
    rng = generator(seed, "demo world")
    fame = np.exp(FAME * rng.standard_normal(ITEMS))
    genres = _mixes(rng, ITEMS, favourites=2)
    first = _mixes(rng, USERS, favourites=3)
    last = (1 - DRIFT) * first + DRIFT * _mixes(rng, USERS, favourites=3)
    counts = long_tailed_counts(rng, USERS, ROWS, FEWEST, MOST, spread=1.2)

    a, b = np.argsort(-genres, axis=1)[:, :2].T  # a film has two: all that its match is a sum of
    of_a, of_b = np.take_along_axis(genres, np.stack([a, b], axis=1), axis=1).T

    def match(taste: NDArray[np.float64]) -> NDArray[np.float64]:
        return taste[..., a] * of_a + taste[..., b] * of_b

    def weight(matches: NDArray[np.float64], faded: NDArray[np.float64]) -> NDArray[np.float64]:
        sharp = matches + INDIFFERENCE
        np.square(sharp, out=sharp)
        np.square(sharp, out=sharp)  # to the power of 4
        return np.multiply(sharp, faded, out=sharp)

    age = np.linspace(0.0, 1.0, VISITS)[:, None]
    faded = fame ** (1 - FADE * age)
    items = []
    for u in range(USERS):
        matches = (1 - age) * match(first[u]) + age * match(last[u])  # of the taste at each visit
        items.append(_films_of(rng, weight(matches, faded), int(counts[u])))
    data = Interactions(
        name="demo" if seed == 0 else f"demo (seed {seed})",
        indptr=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        items=np.concatenate(items).astype(np.int32),
        times=np.concatenate([_times(rng, int(n)) for n in counts]),
        user_ids=np.arange(1, USERS + 1),
        item_ids=np.arange(1, ITEMS + 1),
        titles=invent_titles(rng, genres.argmax(axis=1)),
        genres=_genre_names(genres),
        notes=("made data: invented users, films and dates",),
    )
    return World(data, Best(lambda users: weight(match(last[users]), faded[-1])))


def _mixes(rng: np.random.Generator, n: int, favourites: int) -> NDArray[np.float64]:
    """Shares over the genres, all on a few favourites."""
    k = len(GENRES)
    popular = 1.0 / (3.0 + np.arange(k))  # some genres have more friends, and more films, than others
    order = np.argsort(rng.standard_exponential((n, k)) / popular, axis=1)[:, :favourites]
    shares = np.zeros((n, k))
    np.put_along_axis(shares, order, 0.2 + rng.random((n, favourites)), axis=1)
    return shares / shares.sum(axis=1, keepdims=True)


def _films_of(rng: np.random.Generator, weights: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Draw ``n`` films one after the other, without repeats, over visits with the given weights.

    A race: a film arrives after an exponential time, the sooner the greater its weight; the order of
    arrival is that of successive draws. Only comparisons of random numbers decide, so that the last
    bits of floating point, which differ between machines, do not.
    """
    arrival = rng.standard_exponential(weights.shape)
    arrival /= weights
    taken, start = np.empty(n, np.int64), 0
    for number, visit in enumerate(arrival, 1):
        stop = number * n // VISITS
        visit[taken[:start]] = np.inf
        soonest = np.argpartition(visit, min(stop - start, len(visit) - 1))[: stop - start]
        taken[start:stop] = soonest[np.argsort(visit[soonest])]
        start = stop
    return taken


def _times(rng: np.random.Generator, n: int) -> NDArray[np.int64]:
    """When a user met their films: minutes apart within a visit, weeks between visits, a few at once."""
    gaps = (rng.standard_exponential(n) * 90).astype(np.int64)
    new_visit = (np.arange(1, VISITS) * n) // VISITS
    gaps[new_visit] += (DAY * (1 + 40 * rng.random(VISITS - 1))).astype(np.int64)
    return OPENING + int(rng.random() * 365 * DAY) + np.cumsum(gaps)


def _genre_names(shares: NDArray[np.float64]) -> tuple[tuple[str, ...], ...]:
    names = tuple(GENRES)
    return tuple(tuple(names[k] for k in np.argsort(-row)[: np.count_nonzero(row)]) for row in shares)
