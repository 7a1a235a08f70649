import pytest

from rowmill_systems.intake.fields.dates import find_dates, is_month_first


@pytest.mark.parametrize(
    "text",
    [
        "31.03.2026", "31/03/2026", "03/31/2026", "2026-03-31", "31-03-26", "31.3.26", "March 31, 2026", "Mar 31 2026",
        "31 March 2026", "31st of March 2026", "31-Mar-2026", "31. März 2026", "31 mars 2026", "31 de marzo de 2026",
        "31 marzo 2026", "2026年3月31日", "2026 年 3 月 31 日", "3l.O3.2026", "le 31 mars 2026",
    ],
)  # fmt: skip
def test_a_day_is_read_in_many_forms(text: str) -> None:
    (found,) = find_dates(text)
    assert found.day.isoformat() == "2026-03-31"


@pytest.mark.parametrize(
    "text",
    [
        "31.02.2026", "32/01/2026", "2026-13-01", "29.02.2026", "1.2.3", "10.1.12.26", "030/12/3456", "00.00.0000",
        "may 2026",
    ],
)  # fmt: skip
def test_what_the_calendar_does_not_have_is_no_date(text: str) -> None:
    assert find_dates(text) == []


def test_days_and_months_that_could_change_places_say_so() -> None:
    (found,) = find_dates("03/04/2026")
    assert (found.day.isoformat(), str(found.swapped)) == ("2026-04-03", "2026-03-04")
    (found,) = find_dates("03/04/2026", month_first=True)
    assert found.day.isoformat() == "2026-03-04"
    (dotted,) = find_dates("03.04.2026", month_first=True)
    assert (dotted.day.isoformat(), dotted.swapped) == ("2026-04-03", None)


def test_the_other_dates_of_a_document_say_which_is_the_month() -> None:
    assert is_month_first(["03/04/2026", "12/25/2026"], "de", american=False)
    assert not is_month_first(["03/04/2026", "25/12/2026"], "en", american=True)


def test_else_only_american_english_puts_the_month_first() -> None:
    assert is_month_first(["03/04/2026"], "en", american=True)
    assert not is_month_first(["03/04/2026"], "en", american=False)
    assert not is_month_first(["03/04/2026"], "fr", american=True)


def test_several_dates_come_from_left_to_right() -> None:
    assert [found.day.day for found in find_dates("from 5 May 2026 to 06.06.2026")] == [5, 6]
