"""The generated parts of the documentation are those that the code makes."""

from tools import reference


def test_the_reference_is_up_to_date() -> None:
    stale = [str(page.relative_to(reference.DOCS)) for page in reference.main(check=True)]
    assert not stale, f"run: make docs ({', '.join(stale)})"


def test_a_stale_part_is_noticed() -> None:
    page = "<!-- generated: settings -->\nold\n<!-- end -->"
    assert reference.renewed(page) != page
