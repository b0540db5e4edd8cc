"""Rows that are left out: by their rating, and users and items with few rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedrec.core.errors import DataError
from fedrec.data.interactions import from_codes
from fedrec.data.kcore import k_core
from fedrec.data.load import load
from fedrec.data.sources.imported import import_table

RATED = "user,item,{},time\n1,10,5,1\n1,20,3.5,2\n2,20,4,3\n2,30,1,4\n"


# -- ratings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rating", "Stars", "score", "overall"])
def test_rows_rated_lower_are_left_out(home, name):
    path = home.write("log.csv", RATED.format(name))
    data = load(path, min_rating=4)
    assert data.name == "log:rating4"
    assert data.user_ids.tolist() == [1, 2]
    assert data.item_ids.tolist() == [10, 20]
    assert data.times.tolist() == [1, 3]
    assert len(load(path)) == 4
    assert len(load(path, min_rating=3.5)) == 3


def test_ratings_go_before_everything_else(home):
    path = home.write("log.csv", RATED.format("rating"))
    assert load(f"{path}:2", min_rating=3).user_ids.tolist() == [1]
    with pytest.raises(DataError, match="ask for a smaller minimum"):
        load(f"{path}:2", min_rating=4)


def test_ratings_of_a_frame(home):
    frame = pl.DataFrame({"user": [1, 2], "item": [1, 2], "rating": [None, 5.0]})
    with pytest.raises(DataError, match="row 1 of the DataFrame has no rating"):
        load(frame, min_rating=3)
    assert load(frame.fill_null(2.0), min_rating=3).user_ids.tolist() == [2]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "user,item\n1,2\n",
            r"no column that looks like the rating \(its columns: user, item\): call it rating",
        ),
        ("user,item,rating\n1,2,3\n", r"is rated 4 or more \(the highest is 3\): ask for a lower rating"),
        ("user,item,rating\n1,2,5\n1,3,good\n", "row 2 of .* has 'good' as its rating: give numbers"),
        ("user,item,rating\n1,2,5\n1,3,nan\n", "row 2 of .* has 'nan' as its rating: give numbers"),
    ],
)
def test_ratings_that_cannot_be_used(home, text, sentence):
    with pytest.raises(DataError, match=sentence):
        load(home.write("log.csv", text), min_rating=4)


@pytest.mark.parametrize(
    ("name", "place", "text"),
    [
        ("ml-100k", "ml-100k/u.data", "1\t10\t5\t7\n1\t11\t3\t8\n2\t10\t4\t9\n\n2\t12\t2\t9\n"),
        ("ml-1m", "ml-1m/ratings.dat", "1::10::5::7\n1::11::3.5::8\n2::10::4::9\n"),
        ("ml-20m", "ml-20m/ratings.csv", "userId,movieId,rating,timestamp\n1,10,4.5,7\n1,11,3,8\n2,10,4,9\n"),
        ("filmtrust", "filmtrust/ratings.txt", "1 10 4\n1 11 3.5\n2 10 4\n"),
        ("movietweetings-100k", "movietweetings-100k/ratings.dat", "1::10::8::7\n1::11::3::8\n2::10::4::9\n"),
    ],
)
def test_named_sets_with_ratings_have_a_lowest_one_too(home, name, place, text):
    home.write(place, text)
    assert load(name).item_ids.tolist()[:2] == [10, 11]
    data = load(name, min_rating=4)
    assert (data.user_ids.tolist(), data.item_ids.tolist(), len(data)) == ([1, 2], [10], 2)
    assert data.name == f"{name}:rating4"
    assert data.origin.options == {"min_rating": 4.0}
    assert data.notes == load(name).notes, "what the publisher counted is compared before rows are left out"
    with pytest.raises(DataError, match="is rated 11 or more"):
        load(name, min_rating=11)


def test_the_minimum_of_a_named_set_holds_for_what_is_left(home):
    rows = [f"u{u},i{i},{5.0 if i < 5 or u == 0 else 1.0},{i}" for u in range(2) for i in range(6)]
    rows += [f"u2,i{i},{5.0 if i < 4 else 1.0},{i}" for i in range(6)]
    home.write("amazon-video/ratings.dat", "\n".join(rows) + "\n")
    assert load("amazon-video").n_users == 3
    assert load("amazon-video", min_rating=4).user_ids.tolist() == ["u0", "u1"]


def test_a_row_without_a_rating(home):
    home.write("ml-100k/u.data", "1\t10\t5\t7\n1\t11\t\t8\n2\t10\tgood\t9\n")
    with pytest.raises(DataError, match=r"1 rows of .* have no rating: give numbers"):
        load("ml-100k", min_rating=4)


def test_a_lowest_rating_is_for_data_with_ratings(home):
    for name in ("demo", "lastfm-2k"):
        with pytest.raises(DataError, match=f"'{name}' has no ratings: leave --min-rating out"):
            load(name, min_rating=4)
    for wrong in ("four", float("nan")):
        with pytest.raises(DataError, match=f"min_rating={wrong} is no rating: give a number"):
            load(home.write("log.csv", RATED.format("rating")), min_rating=wrong)


# -- k-core -------------------------------------------------------------------------------------


def slowly(pairs: list[tuple[int, int]], k: int, minimum: int) -> list[tuple[int, int]]:
    """The k-core by its definition."""
    while True:
        users, items = [u for u, _ in pairs], [i for _, i in pairs]
        left = [(u, i) for u, i in pairs if users.count(u) >= max(k, minimum) and items.count(i) >= k]
        if left == pairs:
            return pairs
        pairs = left


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_the_core_is_what_its_definition_leaves(pairs, k, minimum):
    users, items = (np.array(column, dtype=np.int32) for column in zip(*pairs, strict=True))
    data = from_codes("made", users, items, np.arange(len(users)), np.arange(7), np.arange(7))
    expected = sorted(slowly(pairs, k, minimum))
    if not expected:
        with pytest.raises(DataError, match=f"nothing of made is left with core={k}: ask for a smaller core"):
            k_core(data, k, minimum)
        return
    found = k_core(data, k, minimum)
    left = zip(np.repeat(found.user_ids, found.counts), found.item_ids[found.items], strict=True)
    assert sorted((int(u), int(i)) for u, i in left) == expected
    assert found.counts.min() >= 1
    assert np.bincount(found.items, minlength=found.n_items).min() >= 1


CHAIN = "user,item\n" + "".join(f"{u},{i}\n" for u in range(1, 5) for i in (10 * u, 10 * u + 10))
SQUARE = "".join(f"{u},{i}\n" for u in (7, 8) for i in (70, 80))


def test_core_of_a_file(home):
    """A chain loses its ends again and again, until only the square is left."""
    data = load(home.write("log.csv", CHAIN + SQUARE), core=2)
    assert data.name == "log:core2"
    assert data.user_ids.tolist() == [7, 8]
    assert data.item_ids.tolist() == [70, 80]
    with pytest.raises(DataError, match="nothing of log is left with core=3"):
        load(home.data / "log.csv", core=3)


def test_core_of_a_named_set_and_with_a_minimum(home):
    data = load("demo:30", core=10)
    assert data.name == "demo:30:core10"
    assert data.counts.min() >= 30
    assert np.bincount(data.items).min() >= 10
    assert len(data.titles) == data.n_items < 1_700


@pytest.mark.parametrize("core", [0, -1, 2.5, "5"])
def test_core_that_is_none(home, core):
    with pytest.raises(DataError, match=f"the core is {core}: give a whole number of at least 1"):
        load("demo", core=core)


def test_an_import_keeps_only_what_is_left(home):
    low = "".join(f"{u},{i},1\n" for u in (7, 9) for i in (70, 90))
    high = "".join(line + ",5\n" for line in (CHAIN + SQUARE).splitlines()[1:])
    path = home.write("log.csv", "user,item,rating\n" + low + high)
    import_table(path, "mine", min_rating=2, core=2)
    data = load("mine")
    assert (data.user_ids.tolist(), data.item_ids.tolist(), len(data)) == ([7, 8], [70, 80], 4)
    with pytest.raises(DataError, match="the core is 0"):
        import_table(path, "other", core=0)
