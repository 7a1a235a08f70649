"""docs/pitfalls.md points at tests that are there, and at all that were written for it."""

from tests.support.named import REPOSITORY, all_tests, named_in

PAGE = REPOSITORY / "docs" / "pitfalls.md"


def guards() -> dict[str, list[tuple[str, str]]]:
    """Each way to fail with the tests that its line names."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {failure: named_in(tests) for failure, _, tests in cells if failure not in ("how queues fail", "---")}


def test_every_way_to_fail_is_guarded_by_tests_that_are_there() -> None:
    for failure, named in guards().items():
        assert named, f"nothing guards against: {failure}"
        for file, test in named:
            assert test in all_tests(REPOSITORY / file), f"there is no {file}::{test}"


def test_every_test_of_a_pitfall_is_on_the_page() -> None:
    named = {guard for line in guards().values() for guard in line}
    for file in sorted((REPOSITORY / "tests" / "pitfalls").glob("test_*.py")):
        for test in all_tests(file):
            assert (str(file.relative_to(REPOSITORY)), test) in named, f"{test} guards, and the page does not say so"
