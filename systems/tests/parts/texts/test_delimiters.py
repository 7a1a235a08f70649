"""The delimiter of a CSV file is found by its rows."""

import csv
import io
import random

import pytest

from rowmill_systems.parts.texts import DELIMITERS, detect_delimiter

CELLS = (
    "12,50", "1.190,00", "3.20", "Müller, Söhne & Co", "a; b", "see | below", 'say "hi"', "two\nlines", "10:30", "",
    "Zürich", "paper", "Total",
)  # fmt: skip


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("seed", range(20))
def test_tables_with_every_delimiter(delimiter: str, seed: int) -> None:
    chance = random.Random(seed)
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter)
    width = chance.randint(2, 8)
    writer.writerow([f"column {number}" for number in range(width)])
    writer.writerows([[chance.choice(CELLS) for _ in range(width)] for _ in range(chance.randint(1, 120))])
    assert detect_delimiter(out.getvalue()) == delimiter
    assert detect_delimiter(out.getvalue(), header=True) == delimiter
    assert detect_delimiter(out.getvalue()[:3000], header=True, cut=True) == delimiter


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("name\nZürich\n", ","),
        ("name\nDoe, John\n", ";"),
        ("name\nDoe, John; a|b\tc\n", ","),
        ("", ","),
    ],
)
def test_a_table_of_one_column_gets_a_delimiter_that_its_rows_do_not_have(text: str, delimiter: str) -> None:
    assert detect_delimiter(text, header=True) == delimiter
