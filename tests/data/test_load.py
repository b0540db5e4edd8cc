"""Names, minimums, paths, where data are looked up, and imports."""

from __future__ import annotations

import os

import pytest

from fedrec.core.errors import DataError
from fedrec.data.load import BUILT_IN, load, locate
from fedrec.data.sources.imported import import_table, imported_path

TABLE = "user,item,time\n" + "".join(
    f"{user},{item},{item}\n" for user in range(1, 5) for item in range(user)
)


def test_demo_is_the_default_and_needs_no_file(home):
    data = load()
    assert data.name == "demo"
    assert locate("demo").where == "made by fedrec, needs no file"
    assert load("demo:50").counts.min() >= 50


def test_minimum_per_user_as_part_of_the_name(home):
    path = home.write("mine.csv", TABLE)
    assert load(path).n_users == 4
    by_name, by_option = load(f"{path}:3"), load(path, minimum=3)
    assert by_name.name == by_option.name == "mine:3"
    assert by_name.user_ids.tolist() == by_option.user_ids.tolist() == [3, 4]
    assert load(path, minimum=4).n_items == 4


@pytest.mark.parametrize("wrong", ["demo:many", "demo:", "demo:-3", "demo:2.5"])
def test_minimum_that_is_none(home, wrong):
    with pytest.raises(DataError, match="is no minimum: write a whole number, such as demo:10"):
        load(wrong)


def test_minimum_below_one_or_given_twice_or_out_of_reach(home):
    path = home.write("mine.csv", TABLE)
    with pytest.raises(DataError, match="at least 1"):
        load("demo:0")
    with pytest.raises(DataError, match="give the minimum once"):
        load(f"{path}:3", minimum=4)
    with pytest.raises(DataError, match="ask for a smaller minimum"):
        load(f"{path}:99")


def test_path_with_a_colon(home):
    path = home.write("odd:10", TABLE)
    assert load(str(path)).n_users == 4
    assert load(f"{path}:3").n_users == 2


def test_unknown_name_offers_the_nearest(home):
    with pytest.raises(DataError, match=r"unknown data set 'ml-100': did you mean 'ml-100k'\?"):
        load("ml-100")
    with pytest.raises(DataError, match=r"unknown data set 'filmtrst': did you mean 'filmtrust'\?"):
        load("filmtrst:5")


@pytest.mark.parametrize("path", ["nowhere.csv", "no/where", "nowhere.csv:10"])
def test_missing_file(home, path):
    with pytest.raises(DataError, match="does not exist: give the path of a CSV, TSV or Parquet file"):
        load(path)


def test_folder_instead_of_a_file(home):
    with pytest.raises(DataError, match="is a folder"):
        load(home.data)


def test_columns_are_for_files(home):
    with pytest.raises(DataError, match="the columns of 'demo' are known"):
        load("demo", user="u")


def test_folders_are_searched_in_order(home, tmp_path, monkeypatch):
    for folder, user in (("first", 1), ("second", 2)):
        (tmp_path / folder / "filmtrust").mkdir(parents=True)
        (tmp_path / folder / "filmtrust" / "ratings.txt").write_text(f"{user} 1 1\n")
    home.write("ml-1m/ratings.dat", "1::1::1::1\n")
    places = [str(tmp_path / "nowhere"), str(tmp_path / "second"), str(tmp_path / "first"), str(home.data)]
    monkeypatch.setenv("FEDREC_DATA", os.pathsep.join(places))
    assert load("filmtrust").user_ids.tolist() == [2]
    assert load("ml-1m").n_users == 1
    monkeypatch.setenv("FEDREC_DATA", "")
    (home.cache / "filmtrust").mkdir(parents=True)
    (home.cache / "filmtrust" / "ratings.txt").write_text("3 1 1\n")
    assert load("filmtrust").user_ids.tolist() == [3]


@pytest.mark.parametrize("name", ["qb-article", "amazon-video", "tafeng"])
def test_data_that_are_not_downloaded_say_where_to_get_them(home, name):
    with pytest.raises(
        DataError, match=rf"{name} is not downloaded \(.+\): get it from https://.+FEDREC_DATA"
    ):
        load(name)


def test_import_and_load_by_name(home):
    path = home.write(
        "log.csv", "who,what,when,title\nb,2,2024-01-02,Two\nb,1,2024-01-01,One\na,1,2024-01-03,One\n"
    )
    import_table(path, "mine", user="who", item="what", time="when")
    path.unlink()
    data = load("mine")
    assert data.user_ids.tolist() == ["a", "b"]
    assert data.items.tolist() == [0, 0, 1]
    assert data.titles == ("One", "Two")
    assert load("mine:2").user_ids.tolist() == ["b"]
    with pytest.raises(DataError, match=r"did you mean 'mine'\?"):
        load("minne")


def test_import_replaces_only_when_forced(home):
    path = home.write("log.csv", TABLE)
    import_table(path, "mine")
    with pytest.raises(DataError, match=r"was imported before: .* replace it with --force"):
        import_table(path, "mine")
    home.write("log.csv", "user,item\n1,1\n")
    import_table(path, "mine", force=True)
    assert len(load("mine")) == 1


@pytest.mark.parametrize("name", ["../mine", "a b", "", ".hidden", "a:5"])
def test_import_under_a_name_that_cannot_be(home, name):
    with pytest.raises(DataError, match="cannot be a name"):
        import_table(home.write("log.csv", TABLE), name)


def test_import_under_a_known_name(home):
    with pytest.raises(DataError, match="choose another --name"):
        import_table(home.write("log.csv", TABLE), "ml-100k", taken=BUILT_IN)


def test_failed_import_leaves_nothing_behind(home):
    with pytest.raises(DataError, match="'noon' in the time column"):
        import_table(home.write("log.csv", "user,item,time\n1,2,noon\n"), "mine")
    import_table(home.write("log.csv", TABLE), "good")
    assert [path.name for path in imported_path("good").parent.iterdir()] == ["good.parquet"]
