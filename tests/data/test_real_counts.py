"""Counts of the real files, as published and with the papers' filters. Needs FEDREC_DATA."""

from __future__ import annotations

from functools import cache

import pytest

from fedrec.data.load import load, split_name
from fedrec.data.sources.catalog import SOURCES
from fedrec.data.sources.find import find
from fedrec.data.summary import summary

# name: rows, users, items, fewest rows of a user
COUNTS = {
    "ml-100k": (100_000, 943, 1_682, 20),
    "ml-1m": (1_000_209, 6_040, 3_706, 20),
    "lastfm-2k": (185_650, 1_600, 12_454, 5),
    "lastfm-listens": (92_834, 1_892, 17_632, 1),
    "lastfm-listens:10": (92_780, 1_874, 17_612, 10),  # FedRAP's LastFM
    "amazon-video": (63_836, 8_072, 11_830, 5),
    "amazon-video:10": (23_181, 1_372, 7_957, 10),  # FedRAP's Video
    "filmtrust": (35_497, 1_508, 2_071, 1),
    "filmtrust:5": (34_889, 1_227, 2_059, 5),  # FedRecGEL's filter
    "filmtrust:10": (33_372, 1_002, 2_042, 10),
    "movietweetings-100k": (100_000, 16_554, 10_506, 1),
    "movietweetings-100k:5": (80_854, 4_692, 9_674, 5),
    "movietweetings-100k:10": (67_040, 2_583, 9_111, 10),
    "movietweetings-100k:20": (47_640, 1_154, 8_174, 20),
    "tafeng": (571_933, 13_858, 11_997, 3),
}
PAIRS = {"lastfm-2k": 70_508, "filmtrust": 35_494, "tafeng": 504_437, "ml-100k": 100_000}
TIED = {"ml-100k": 415, "ml-1m": 2_544, "amazon-video": 2_216, "lastfm-2k": 659, "movietweetings-100k": 0}


@cache
def facts_of(name: str) -> dict:
    base, _ = split_name(name)
    if find(SOURCES[base]) is None:
        pytest.skip(f"{base} is not in FEDREC_DATA")
    return summary(load(name))


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    facts = facts_of(name)
    assert (facts["rows"], facts["users"], facts["items"], facts["per_user"]["min"]) == COUNTS[name]


@pytest.mark.parametrize("name", PAIRS)
def test_distinct_pairs(name):
    assert facts_of(name)["pairs"] == PAIRS[name]


@pytest.mark.parametrize("name", TIED)
def test_users_whose_newest_time_is_tied(name):
    assert facts_of(name)["tied_newest"] == TIED[name]


def test_published_counts_raise_no_note():
    for name in (name for name in COUNTS if ":" not in name):
        if find(SOURCES[name]) is not None:
            assert load(name).notes == ()


def test_lastfm_log_gives_the_same_rows_as_the_prepared_file():
    from fedrec.data.sources.build import build
    from fedrec.data.sources.lastfm import read_tags

    place = find(SOURCES["lastfm-2k"])
    log = place.part("user_taggedartists.dat") if place else None
    ready = place.part("ratings.dat") if place else None
    if log is None or ready is None:
        pytest.skip("FEDREC_DATA lacks user_taggedartists.dat or ratings.dat of lastfm-2k")
    ours, theirs = build("log", read_tags(place, log)).at_least(5), build("ready", read_tags(place, ready))
    assert (ours.items == theirs.items).all()
    assert (ours.times == theirs.times).all()
