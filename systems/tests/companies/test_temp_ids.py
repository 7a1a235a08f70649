"""Temporary ids are the same for ever: these vectors are in databases of users."""

import pytest

from rowmill_systems.companies.temp_ids import (
    LONGEST_NAME,
    LONGEST_RAW_NAME,
    TEMP_ID_PREFIX,
    is_temp_id,
    normalize_for_temp_id,
    temp_id,
)

VECTORS = [
    ("acme", "salt", "IN_ZV5JTQDUGVTKGUH3"),
    ("acme", "another salt", "IN_G4JNZRYGOO34H43O"),
    ("中国平安人寿保险", "salt", "IN_VXX5TA74JWFYNGM4"),
    ("münchener rück", "sälz", "IN_I33JK3J7HZW3QSFT"),
]


@pytest.mark.parametrize(("name", "salt", "expected"), VECTORS)
def test_an_id_is_the_same_on_every_machine_and_in_every_version(name: str, salt: str, expected: str) -> None:
    """C3."""
    assert temp_id(name, salt) == expected
    assert is_temp_id(expected)


@pytest.mark.parametrize("other", ["C-1", "IN_", "IN_short", "in_abcdefghijklmnop", "600000000000000000X"])
def test_other_ids_are_not_taken_for_temporary_ones(other: str) -> None:
    assert not is_temp_id(other)


def test_the_prefix_is_recognisable() -> None:
    assert temp_id("acme", "salt").startswith(TEMP_ID_PREFIX)


@pytest.mark.parametrize("blank", ["", "   ", "---", "x" * (LONGEST_RAW_NAME + 1), "name " * LONGEST_NAME, "\x00"])
def test_what_names_nothing_has_no_normal_form(blank: str) -> None:
    """Blank, punctuation, or a cell that is far too long for a name."""
    assert normalize_for_temp_id(blank) == ""


def test_characters_that_no_database_stores_are_left_out() -> None:
    assert normalize_for_temp_id("Ac\x00me\ud800") == normalize_for_temp_id("Acme")
