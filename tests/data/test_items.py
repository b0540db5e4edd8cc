"""A file of items beside the interactions: titles and genres by id."""

from __future__ import annotations

import pytest

from fedrec.core.errors import DataError
from fedrec.data.load import load
from fedrec.data.sources.imported import import_table

RATINGS = "userId,movieId,timestamp\n1,10,1\n1,20,2\n2,30,3\n"
MOVIES = 'movieId,title,genres\n30,Thirty,(no genres listed)\n10,"Ten, The",Drama|War\n99,Other,War\n'


def test_titles_and_genres_by_item_id(home):
    path = home.write("ratings.csv", RATINGS)
    data = load(path, items=home.write("movies.csv", MOVIES))
    assert data.titles == ("Ten, The", "20", "Thirty")
    assert data.genres == (("Drama", "War"), (), ())
    assert load(path, items=str(home.data / "movies.csv")).titles == data.titles


def test_genres_with_commas_and_other_usual_names(home):
    path = home.write("ratings.csv", RATINGS)
    data = load(
        path, items=home.write("names.tsv", "ID\tName\tcategory\n10\tTen\tDrama, War\n20\tTwenty\t\n")
    )
    assert data.titles == ("Ten", "Twenty", "30")
    assert data.genres == (("Drama", "War"), (), ())


def test_the_column_that_the_interactions_name_is_looked_for_first(home):
    path = home.write("log.csv", "who,what\n1,x\n")
    items = home.write("items.csv", "id,what,title\n7,x,The X\n")
    assert load(path, user="who", item="what", items=items).titles == ("The X",)


def test_ids_are_compared_as_the_interactions_have_them(home):
    numbers = home.write("a.csv", "user,item\n1,7\n1,8\n")
    texts = home.write("b.csv", "user,item\n1,007\n1,x\n")
    items = home.write("items.csv", "item,title\n007,Seven\nx,Ex\n")
    assert load(numbers, items=items).titles == ("Seven", "8")
    assert load(texts, items=items).titles == ("Seven", "Ex")


def test_genres_alone_leave_the_titles_of_the_interactions(home):
    path = home.write("log.csv", "user,item,title\n1,10,Ten\n")
    data = load(path, items=home.write("items.csv", "item,genre\n10,Drama\n"))
    assert (data.titles, data.genres) == (("Ten",), (("Drama",),))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a,title\n10,Ten\n", r"no column that looks like the item \(its columns: a, title\): call it item"),
        (
            "item,year\n10,1999\n",
            r"neither titles nor genres \(its columns: item, year\): call a column title",
        ),
        ("item,title\n77,Other\n", r"names no item of the interactions \(its first id is '77', theirs 10\)"),
        ("item,title\n10,Ten\n,None\n", "row 2 of .*items.csv has no id"),
        ("", "is empty"),
    ],
)
def test_files_of_items_that_are_wrong(home, text, sentence):
    with pytest.raises(DataError, match=sentence):
        load(home.write("ratings.csv", RATINGS), items=home.write("items.csv", text))


def test_items_that_are_not_there_or_come_with_the_data(home):
    with pytest.raises(DataError, match=r"gone\.csv does not exist"):
        load(home.write("ratings.csv", RATINGS), items=home.data / "gone.csv")
    with pytest.raises(DataError, match="the items of 'demo' come with it"):
        load("demo", items=home.write("movies.csv", MOVIES))


def test_an_import_keeps_the_names_of_its_items(home):
    path, items = home.write("ratings.csv", RATINGS), home.write("movies.csv", MOVIES)
    import_table(path, "mine", items=items)
    items.unlink()
    data = load("mine")
    assert data.titles == ("Ten, The", "20", "Thirty")
    assert data.genres == (("Drama", "War"), (), ())
