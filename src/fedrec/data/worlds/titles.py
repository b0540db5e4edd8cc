"""Invented film titles: every one holds a made-up name, so that none is a real film."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Genres, from the most to the least common, and the things their titles speak of.
GENRES: dict[str, tuple[str, ...]] = {
    "Drama": ("Inheritance", "Kitchen", "Winter", "Letter", "Silence", "Daughter"),
    "Comedy": ("Wedding", "Landlord", "Moustache", "Holiday", "Nephew", "Trombone"),
    "Adventure": ("Compass", "Map", "Expedition", "Summit", "Caravan", "Treasure"),
    "Romance": ("Bookshop", "Promise", "Balcony", "Serenade", "Postcard", "Rose"),
    "Crime": ("Ledger", "Alibi", "Informer", "Cellar", "Verdict", "Accomplice"),
    "Space": ("Orbit", "Starship", "Colony", "Comet", "Signal", "Moonbase"),
    "Fantasy": ("Dragon", "Crown", "Spell", "Tower", "Prophecy", "Unicorn"),
    "Mystery": ("Key", "Stranger", "Manor", "Cipher", "Footprint", "Clock"),
    "Family": ("Puppy", "Treehouse", "Grandfather", "Bicycle", "Snowman", "Pony"),
    "Animation": ("Teapot", "Snail", "Kite", "Paintbox", "Hedgehog", "Umbrella"),
    "Spy": ("Embassy", "Courier", "Dossier", "Defector", "Frequency", "Border"),
    "Musical": ("Chorus", "Waltz", "Cabaret", "Overture", "Tambourine", "Encore"),
    "Heist": ("Vault", "Diamond", "Tunnel", "Getaway", "Forgery", "Safe"),
    "Ghost story": ("Attic", "Whisper", "Seance", "Lantern", "Staircase", "Mirror"),
    "Western": ("Saddle", "Sheriff", "Canyon", "Stagecoach", "Ranch", "Prairie"),
    "Sea story": ("Harbour", "Captain", "Tide", "Lighthouse", "Mutiny", "Schooner"),
    "Costume": ("Duchess", "Ballroom", "Governess", "Heir", "Portrait", "Carriage"),
    "Documentary": ("Glacier", "Archive", "Orchard", "Beekeeper", "Railway", "Estuary"),
}

_FORMS = (
    "The {thing} of {name}",
    "The {name} {thing}",
    "No {thing} for {name}",
    "The Last {thing} in {name}",
    "{name} and the {thing}",
    "The {thing} from {name}",
    "{name}, My {thing}",
    "The Other {name} {thing}",
)
_STARTS = (
    "Am", "Bel", "Cor", "Dro", "El", "Fen", "Gal", "Hes", "Ist", "Jor", "Kel", "Lum", "Mir",
    "Nor", "Os", "Pel", "Quen", "Ras", "Syl", "Tam", "Ul", "Vel", "Wim", "Yar", "Zan",
)  # fmt: skip
_MIDDLES = ("a", "e", "i", "o", "u", "ara", "eri", "ina")
_ENDS = ("bra", "dane", "dril", "lith", "mora", "nelle", "quist", "rova", "sk", "thorne", "vane", "wick")


def invent_titles(rng: np.random.Generator, genres: NDArray[np.int64]) -> tuple[str, ...]:
    """A title for every item, given its main genre (a position in ``GENRES``); no two are the same."""
    things = tuple(GENRES.values())
    titles: dict[str, None] = {}  # keeps the order
    for genre in genres:
        before = len(titles)
        while len(titles) == before:
            name = _pick(rng, _STARTS) + _pick(rng, _MIDDLES) + _pick(rng, _ENDS)
            titles[_pick(rng, _FORMS).format(thing=_pick(rng, things[genre]), name=name)] = None
    return tuple(titles)


def _pick(rng: np.random.Generator, words: tuple[str, ...]) -> str:
    return words[int(rng.random() * len(words))]
