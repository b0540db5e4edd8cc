"""Every family is read from its official format. The rows are invented."""

from __future__ import annotations

import numpy as np
import pytest

from fedrec.core.errors import DataError
from fedrec.data.load import load

# user, item, rating, time: two users, three items, the second user's rows out of order
ROWS = [(1, 10, 4, 100), (1, 30, 5, 200), (2, 20, 3, 500), (2, 10, 1, 400)]


def lines(separator: str, rows=ROWS) -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in rows)


def pairs(data) -> list[tuple]:
    """(user, item) by original id, in the order the data hold them."""
    users = np.repeat(data.user_ids, data.counts)
    return list(zip(users.tolist(), data.item_ids[data.items].tolist(), strict=True))


IN_TIME = [(1, 10), (1, 30), (2, 10), (2, 20)]
FLAGS = "|".join(["0"] * 18)
FILMS_100K = (
    f"10|Été (1990)|01-Jan-1990||http://x|1|{FLAGS}\n20|Winter (1991)|01-Jan-1991||http://x|0|{FLAGS}\n"
)
GENRES_100K = "unknown|0\n" + "".join(f"g{i}|{i}\n" for i in range(1, 19)) + "\n"
FILMS_DAT = "10::Été: the film (1990)::Drama|Film-Noir\n20::Winter (1991)::Comedy\n"
FILMS_CSV = 'movieId,title,genres\r\n10,"Été, the film",Drama|Comedy\r\n20,Winter,(no genres listed)\r\n'


def test_ml_100k_official_zip(home):
    files = {"ml-100k/u.data": lines("\t"), "ml-100k/u.item": FILMS_100K, "ml-100k/u.genre": GENRES_100K}
    home.zip("ml-100k.zip", files, encoding="latin-1")
    data = load("ml-100k")
    assert pairs(data) == IN_TIME
    assert data.times.tolist() == [100, 200, 400, 500]
    assert data.user_ids.tolist() == [1, 2]
    assert data.item_ids.tolist() == [10, 20, 30]
    assert data.titles == ("Été (1990)", "Winter (1991)", "30")  # an item without a title is called by its id
    assert data.genres == (("unknown",), (), ())
    assert "published set 100,000 rows" in data.notes[0]


def test_ml_100k_with_commas_and_gzip(home):
    home.write("ml-100k/ratings.dat.gz", lines(","))
    data = load("ml-100k")
    assert pairs(data) == IN_TIME
    assert data.titles is None


@pytest.mark.parametrize(
    ("name", "path", "encoding"),
    [
        ("ml-1m", "ml-1m/{}", "latin-1"),
        ("ml-10m", "ml-10M100K/{}", "utf-8"),
        ("movietweetings-100k", "movietweetings-100k/{}", "utf-8"),
    ],
)
@pytest.mark.parametrize("packed", ["", ".gz"])
def test_double_colon_files(home, name, path, encoding, packed):
    home.write(path.format("ratings.dat" + packed), lines("::"))
    home.write(path.format("movies.dat" + packed), FILMS_DAT, encoding)
    data = load(name)
    assert pairs(data) == IN_TIME
    assert data.titles == ("Été: the film (1990)", "Winter (1991)", "30")
    assert data.genres == (("Drama", "Film-Noir"), ("Comedy",), ())


@pytest.mark.parametrize("name", ["ml-20m", "ml-25m", "ml-32m", "ml-latest-small"])
def test_movielens_csv_in_its_zip(home, name):
    ratings = "userId,movieId,rating,timestamp\r\n" + lines(",", [(u, i, 3.5, t) for u, i, _, t in ROWS])
    home.zip(f"{name}/{name}.zip", {f"{name}/ratings.csv": ratings, f"{name}/movies.csv": FILMS_CSV})
    data = load(name)
    assert pairs(data) == IN_TIME
    assert data.titles[0] == "Été, the film"
    assert data.genres == (("Drama", "Comedy"), (), ())


# The tag log: user 1 has five rows and stays, user 2 has four and goes.
TAGS = [(1, 10, 7), (1, 10, 8), (1, 30, 7), (1, 20, 7), (1, 20, 9)] + [(2, 40, tag) for tag in range(4)]
ARTISTS = "id\tname\turl\tpictureURL\n10\tThe Émigrés\tu\tp\n20\tDos\tu\tp\n"
MAY_FIRST_IN_MADRID = 1_304_200_800_000  # midnight of 2011-05-01 there is 22:00 of the day before in UTC


@pytest.mark.parametrize("form", ["ratings", "timestamps", "days"])
def test_lastfm_tag_log(home, form):
    stamps = [MAY_FIRST_IN_MADRID + 86_400_000 * row for row in range(len(TAGS))]
    if form == "ratings":
        home.write("lastfm-2k/ratings.dat", lines(",", [(*t, s) for t, s in zip(TAGS, stamps, strict=True)]))
        home.write("lastfm-2k/artists.dat.gz", ARTISTS)
    elif form == "timestamps":
        log = "userID\tartistID\ttagID\ttimestamp\r\n"
        log += lines("\t", [(*t, f"{s}\r") for t, s in zip(TAGS, stamps, strict=True)])
        home.zip(
            "hetrec2011-lastfm-2k.zip", {"user_taggedartists-timestamps.dat": log, "artists.dat": ARTISTS}
        )
    else:
        log = "userID\tartistID\ttagID\tday\tmonth\tyear\r\n"
        log += lines("\t", [(*t, row + 1, 5, "2011\r") for row, t in enumerate(TAGS)])
        home.write("lastfm-2k/user_taggedartists.dat.gz", log)
        home.write("lastfm-2k/artists.dat", ARTISTS)
    data = load("lastfm-2k")
    assert pairs(data) == [(1, 10), (1, 10), (1, 30), (1, 20), (1, 20)]
    assert data.times.tolist() == stamps[:5]
    assert data.titles == ("The Émigrés", "Dos", "30")


def test_lastfm_listens_take_the_first_appearance_of_an_artist_as_time(home):
    rows = [(1, 30, 9), (1, 10, 5), (2, 10, 3), (2, 20, 2), (2, 30, 1)]
    home.write("lastfm-2k/user_artists.dat", "userID\tartistID\tweight\r\n" + lines("\t", rows))
    data = load("lastfm-listens")
    assert pairs(data) == [(1, 30), (1, 10), (2, 30), (2, 10), (2, 20)]
    assert data.times.tolist() == [0, 1, 0, 1, 2]


def test_lastfm_log_with_an_impossible_day(home):
    log = "userID\tartistID\ttagID\tday\tmonth\tyear\n1\t10\t7\t40\t5\t2011\n"
    home.write("lastfm-2k/user_taggedartists.dat", log)
    with pytest.raises(DataError, match="no date: fetch the file again"):
        load("lastfm-2k")


def test_amazon_ids_stay_text_and_users_need_five_rows(home):
    rows = [("ann", f"B00{i}", 5.0, 100 - i) for i in range(5)] + [("bob", "B000", 1.0, 7)]
    home.write("amazon-video/ratings.dat", lines(",", rows))
    data = load("amazon-video")
    assert data.user_ids.tolist() == ["ann"]
    assert data.item_ids.dtype == object
    assert pairs(data) == [("ann", f"B00{i}") for i in (4, 3, 2, 1, 0)]


def test_filmtrust_has_no_times_and_keeps_the_order_of_the_file(home):
    home.zip(
        "filmtrust/filmtrust.zip",
        {"ratings.txt": "2 20 3.5\n1 30 4\n1 10 0.5\n1 30 2\n", "trust.txt": "1 2 1\n"},
    )
    data = load("filmtrust")
    assert data.times is None
    assert pairs(data) == [(1, 30), (1, 10), (1, 30), (2, 20)]


def test_tenrec_keeps_clicks_in_the_order_of_the_file(home):
    head = "user_id,item_id,click,gender,age\n"
    home.write("qb-article/QB-article.csv", head + "1,30,1.0,1,2\n1,10,0.0,1,2\n2,20,1.0,0,3\n1,10,1.0,1,2\n")
    data = load("qb-article")
    assert data.times is None
    assert pairs(data) == [(1, 30), (1, 10), (2, 20)]


def test_tafeng_takes_the_number_of_the_basket_as_time(home):
    home.write("tafeng-baskets/baskets.csv.gz", "user,basket,item\n5,1,8\n5,0,9\n5,0,7\n6,0,9\n")
    data = load("tafeng")
    assert pairs(data) == [(5, 9), (5, 7), (5, 8), (6, 9)]
    assert data.times.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1::10::4::noon\n", "row 1 of .* has 'noon' as time"),
        ("1::10::4::100\n1::ten::4::100\n", "row 2 of .* has 'ten' as item"),
        ("1::10::4\n", "does not have rows of the form 'user::item::…::time'"),
        ("1::10::4::5::6\n", "does not have rows of the form 'user::item::…::time'"),
        ("1,10,4,5\n", "does not have rows of the form 'user::item::…::time'"),
        ("1::::4::5\n", "row 1 of .* has no item"),
        ("", "is empty"),
        ("\n", "rows of the form|is empty"),
    ],
)
def test_official_file_that_is_not_in_order(home, text, sentence):
    home.write("ml-1m/ratings.dat", text)
    with pytest.raises(DataError, match=sentence):
        load("ml-1m")


def test_blank_lines_are_no_rows(home):
    home.write("ml-1m/ratings.dat", lines("::") + "\n\n")
    assert len(load("ml-1m")) == len(ROWS)


def test_wrong_header(home):
    home.write("ml-20m/ratings.csv", "user,movieId,rating,timestamp\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"has no column 'userId': did you mean 'user'\?"):
        load("ml-20m")


@pytest.mark.parametrize("cut", [1, 20])
def test_truncated_gzip(home, cut):
    path = home.write("ml-1m/ratings.dat.gz", lines("::") * 50)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match="cut short or damaged: delete it and fetch it again"):
        load("ml-1m")


def test_damaged_zip(home):
    path = home.zip("ml-100k.zip", {"ml-100k/u.data": lines("\t") * 50})
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="cut short or damaged"):
        load("ml-100k")
