"""Any table with a header: columns found and given, kinds of ids and times, files that are wrong."""

from __future__ import annotations

import datetime

import numpy as np
import polars as pl
import pytest

from fedrec.core.errors import DataError
from fedrec.data.load import load


def pairs(data) -> list[tuple]:
    users = np.repeat(data.user_ids, data.counts)
    return list(zip(users.tolist(), data.item_ids[data.items].tolist(), strict=True))


@pytest.mark.parametrize("header", ["user,item,timestamp", "userId,movieId,ts", "reviewerID,asin,Date"])
def test_columns_are_found_by_their_usual_names(home, header):
    path = home.write("mine.csv", f"{header}\n1,10,5\n1,20,4\n")
    data = load(path)
    assert data.name == "mine"
    assert pairs(data) == [(1, 20), (1, 10)]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tsv.gz"])
def test_separators_are_found(home, name):
    path = home.write(name, "user\titem\n1\t10\n")
    assert pairs(load(path)) == [(1, 10)]


def test_semicolons_and_a_quoted_separator(home):
    path = home.write("a.csv", 'user;item;time\n"a;b";10;1\n')
    assert pairs(load(path)) == [("a;b", 10)]


def test_zip_with_one_file(home):
    assert pairs(load(home.zip("a.zip", {"in/a.csv": "user,item\n1,10\n"}))) == [(1, 10)]
    with pytest.raises(DataError, match="holds 2 files: unpack it"):
        load(home.zip("b.zip", {"a.csv": "user,item\n1,10\n", "b.csv": ""}))


def test_parquet_with_dates(home):
    path = home.data / "a.parquet"
    times = [datetime.datetime(2024, 1, 2), datetime.datetime(2024, 1, 1)]
    pl.DataFrame({"user": ["u", "u"], "item": [1, 2], "time": times}).write_parquet(path)
    data = load(path)
    assert pairs(data) == [("u", 2), ("u", 1)]
    assert data.times[1] - data.times[0] == 86_400 * 1_000_000


def test_columns_are_given(home):
    path = home.write("a.csv", "who,what,n\n1,10,5\n1,20,4\n")
    data = load(path, user="who", item="what", time="n")
    assert data.times.tolist() == [4, 5]
    assert load(path, user="who", item="what").times is None


def test_times_can_be_left_out(home):
    path = home.write("a.csv", "user,item,time\n1,10,5\n1,20,not a time\n")
    data = load(path, time="")
    assert data.times is None
    assert pairs(data) == [(1, 10), (1, 20)]


def test_titles_come_along(home):
    path = home.write("a.csv", "user,item,title\n1,10,Ten\n1,20,\n")
    assert load(path).titles == ("Ten", "20")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("5.5", "5.25"),
        ("2024-01-02", "2024-01-01"),
        ("2024-01-01 10:00:01", "2024-01-01 10:00:00.5"),
        ("2024-01-01T10:00:01Z", "2024-01-01T10:00:00Z"),
        ("2024-01-01T10:00:00+00:00", "2024-01-01T11:00:00+02:00"),
        ("2024/01/01 10:01", "2024/01/01 10:00"),
    ],
)
def test_kinds_of_time(home, first, second):
    path = home.write("a.csv", f"user,item,time\n1,10,{first}\n1,20,{second}\n")
    assert pairs(load(path)) == [(1, 20), (1, 10)]


def test_negative_ids_are_ids(home):
    data = load(home.write("a.csv", "user,item\n-5,10\n3,-7\n"))
    assert data.user_ids.tolist() == [-5, 3]
    assert data.item_ids.tolist() == [-7, 10]


def test_far_apart_ids(home):
    lowest, highest = -(2**63), 2**63 - 1
    data = load(home.write("a.csv", f"user,item\n{highest},1\n{lowest},1\n{highest},2\n"))
    assert data.user_ids.tolist() == [lowest, highest]
    assert data.counts.tolist() == [1, 2]


def test_ids_beyond_64_bits_are_text(home):
    data = load(home.write("a.csv", f"user,item\n{2**64},1\n7,2\n"))
    assert data.user_ids.tolist() == [str(2**64), "7"]
    assert data.item_ids.tolist() == [1, 2]  # the other column is not affected


def test_text_ids_after_many_numbers(home):
    rows = "".join(f"{i},1\n" for i in range(5000))
    data = load(home.write("a.csv", f"user,item\n{rows}last,1\n"))
    assert data.n_users == 5001
    assert data.user_ids[-1] == "last"


def test_duplicate_rows_stay(home):
    data = load(home.write("a.csv", "user,item,time\n1,10,5\n1,10,5\n1,10,6\n"))
    assert len(data) == 3


@pytest.mark.parametrize(
    ("rows", "users", "items"), [("1,10\n1,20\n", 1, 2), ("1,10\n2,10\n", 2, 1), ("1,10\n", 1, 1)]
)
def test_one_user_or_one_item(home, rows, users, items):
    data = load(home.write("a.csv", "user,item\n" + rows))
    assert (data.n_users, data.n_items) == (users, items)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty: give a file with at least one interaction"),
        ("user,item,time\n", "is empty: give a file with at least one interaction"),
        (
            "a,b\n1,2\n",
            r"no column that looks like the user \(its columns: a, b\): name it with --user",
        ),
        ("user,b\n1,2\n", "no column that looks like the item"),
        (
            "user,item,time\n1,2,3\n1,2,noon\n",
            "row 2 of .*a.csv has 'noon' in the time column 'time'",
        ),
        ("user,item,time\n1,2,3\n1,2,\n", "row 2 of .* has no time"),
        ("user,item\n1,\n", "row 1 of .* has no item"),
        ("user,item\n1,2,3,4\n", "give every row the same columns"),
    ],
)
def test_bad_tables(home, text, sentence):
    with pytest.raises(DataError, match=sentence):
        load(home.write("a.csv", text))


def test_text_that_is_not_utf8(home):
    with pytest.raises(DataError, match="save it as UTF-8"):
        load(home.write("a.csv", "user,item\nRené,1\n", encoding="latin-1"))


def test_a_column_that_is_not_there(home):
    with pytest.raises(DataError, match=r"has no column 'usr': did you mean 'user'\?"):
        load(home.write("a.csv", "user,item\n1,2\n"), user="usr")


def test_parquet_that_is_none(home):
    with pytest.raises(DataError, match="cannot read"):
        load(home.write("a.parquet", "user,item\n1,2\n"))


def test_truncated_gzip_of_a_table(home):
    path = home.write("a.csv.gz", "user,item\n" + "".join(f"{i},{i * 7}\n" for i in range(500)))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match="cut short or damaged"):
        load(path)
