"""Names that are the same to a reader fold to the same; those of other scripts survive."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.parts.names.folding import folded, words


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Åse  Žižek", "ase zizek"),
        ("Straße", "strasse"),
        ("Łódź", "lodz"),
        ("Søren Kierkegaard", "soren kierkegaard"),
        ("Ｔｏｙｏｔａ　１２", "toyota 12"),
        ("Jean-Paul\u00a0Sartre", "jean paul sartre"),
        ("J.R.R. Tolkien", "j r r tolkien"),
        ("O’Brien", "obrien"),
        ("McDonald's", "mcdonalds"),
        ("AT&T", "at t"),
        ("Ⅷ. Henrik", "viii henrik"),
        ("Disney+", "disney plus"),
        ("C++", "c plus plus"),
        ("C#", "c sharp"),
        ("co\u00adop\u200d", "coop"),
        ("İstanbul", "istanbul"),
        ("!!!", "!!!"),
        ("", ""),
        (" \t\n", ""),
    ],
)
def test_what_a_reader_takes_for_the_same_folds_to_the_same(name: str, expected: str) -> None:
    assert folded(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("東京", "東京"),
        ("ﾄﾖﾀ", "トヨタ"),
        ("ガンダム", "ガンダム"),
        ("Лев Толстой", "лев толстои"),
        ("أَحْمَد", "احمد"),
        ("שָׁלוֹם", "שלום"),
        ("한국", "한국"),
        ("हिन्दी", "हिन्दी"),
        ("กรุงเทพ", "กรุงเทพ"),
        ("レオナルド・ダ・ヴィンチ", "レオナルド ダ ヴィンチ"),
    ],
)
def test_other_scripts_survive(name: str, expected: str) -> None:
    assert folded(name) == expected


def test_what_changes_the_letter_is_no_accent() -> None:
    assert folded("ガ") != folded("カ")


def test_words_of_a_name() -> None:
    assert words("Saint-Exupéry, Antoine de") == ("saint", "exupery", "antoine", "de")
    assert words("東京") == ("東京",)


@given(st.text(max_size=50))
def test_folding_twice_is_folding_once(name: str) -> None:
    assert folded(folded(name)) == folded(name)
