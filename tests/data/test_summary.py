"""The figures of `fedrec data info`."""

from __future__ import annotations

from fedrec.data.load import load
from fedrec.data.summary import summary, time_span


def test_summary_of_a_small_table(home):
    rows = ["1,10,5", "1,10,5", "1,20,5", "2,10,7", "3,10,1", "3,20,2", "3,30,2"]
    facts = summary(load(home.write("a.csv", "user,item,time\n" + "\n".join(rows))))
    assert facts["rows"] == 7
    assert facts["pairs"] == 6
    assert facts["per_user"] == {"min": 1, "median": 3.0, "max": 3}
    assert facts["density"] == 6 / 9
    assert facts["time"]["first"] == 1
    assert facts["tied_newest"] == 2  # users 1 and 3; a repeated item is no tie


def test_no_times(home):
    facts = summary(load(home.write("a.csv", "user,item\n1,10\n")))
    assert facts["time"] is None
    assert facts["tied_newest"] is None


def test_dates_whatever_the_unit():
    for scale in (1, 1_000, 1_000_000, 1_000_000_000):
        span = time_span(0, 1_700_000_000 * scale)
        assert (span["from"], span["to"]) == ("1970-01-01", "2023-11-14")
    assert time_span(0, 50)["to"] is None  # numbers that only order, such as baskets
