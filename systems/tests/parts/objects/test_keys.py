"""Keys of objects are made of ids that anybody may have chosen."""

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rowmill_systems.parts.objects.keys import SHAPE, key_of, parts_of

HASH = "0" * 64
IDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=16)


@given(IDS, IDS)
def test_every_id_makes_a_key_that_leads_nowhere_else(organization: str, project: str) -> None:
    key = key_of(organization, project, HASH)
    assert SHAPE.fullmatch(key)
    assert len(parts_of(key)) == len(PurePosixPath("/root", key).relative_to("/root").parts) == 3
    assert not any(part.startswith(".") for part in parts_of(key))


@given(IDS, IDS, IDS, IDS)
def test_two_projects_never_share_a_key(one: str, two: str, three: str, four: str) -> None:
    assert (key_of(one, two, HASH) == key_of(three, four, HASH)) == ((one, two) == (three, four))


def test_plain_ids_stay_as_they_are() -> None:
    assert key_of(7, "0f1c-4a", HASH) == f"7/0f1c-4a/{HASH}"
    assert key_of("..", "a/b", HASH) == f"=2E./a=2Fb/{HASH}"


@pytest.mark.parametrize(("organization", "sha256"), [("", HASH), ("x" * 201, HASH), ("x", "0" * 63), ("x", "A" * 64)])
def test_what_can_be_no_key_is_refused(organization: str, sha256: str) -> None:
    with pytest.raises(ValueError, match=r"id in a key|sha256"):
        key_of(organization, "crm", sha256)
