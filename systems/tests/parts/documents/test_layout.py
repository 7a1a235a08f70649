"""Rows, tabs and columns, of words anywhere."""

from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.parts.documents.document import Box, Word
from rowmill_systems.parts.documents.layout import Spot, lines_of


def spot(text: str, left: float, base: float, *, height: float = 10.0, width: float | None = None) -> Spot:
    right = left + (len(text) * 5.0 if width is None else width)
    return Spot(Word(text, Box(0, 0, 1, 1)), left, base - height, right, base, base)


def lines(*spots: Spot) -> list[str]:
    return [line.text for line in lines_of(spots)]


def test_a_raised_number_belongs_to_its_row_and_the_next_row_does_not() -> None:
    assert lines(spot("12", 26, 96, height=7), spot("metre", 0, 100), spot("below", 0, 112)) == ["metre 12", "below"]


def test_small_rows_beside_a_large_title_stay_apart() -> None:
    title = spot("TITLE", 0, 130, height=40, width=100)
    assert lines(title, spot("one", 200, 106), spot("two", 200, 118), spot("three", 200, 130)) == [
        "one", "two", "TITLE\tthree",
    ]  # fmt: skip


def test_two_addresses_side_by_side_stay_rows() -> None:
    left = [spot(text, 0, 12.0 * n) for n, text in enumerate(("Acme", "Street", "Town", "Land", "Phone", "Mail"))]
    right = [spot(text, 200, 12.0 * n) for n, text in enumerate(("Shop", "Road", "City", "State", "Tel", "Web"))]
    assert lines(*left, *right)[0] == "Acme\tShop"


def test_columns_whose_rows_do_not_lie_on_one_height_are_still_columns() -> None:
    words = ("some", "words", "of", "running", "text")

    def column(name: str, left: float, shift: float) -> list[Spot]:
        return [
            spot(f"{name}{n}" if place == 0 else word, left + 32 * place, 12.0 * n + shift, width=26)
            for n in range(8)
            for place, word in enumerate(words)
        ]

    found = lines(*column("a", 0, 0), *column("b", 200, 5))
    assert [line.split()[0] for line in found] == [f"a{n}" for n in range(8)] + [f"b{n}" for n in range(8)]


@given(
    st.lists(
        st.tuples(st.text("abc1", min_size=1, max_size=5), st.floats(0, 600), st.floats(0, 800), st.floats(0, 60)),
        max_size=60,
    )
)
def test_no_word_is_lost_or_made_up(placed: list[tuple[str, float, float, float]]) -> None:
    spots = [spot(text, left, base, height=height) for text, left, base, height in placed]
    found = lines_of(spots)
    assert sorted(word.text for line in found for word in line.words) == sorted(text for text, *_ in placed)
    assert all(line.text.split() == [word.text for word in line.words] for line in found)
