"""What words and names mean."""

import pytest

from rowmill.adopt import known_names
from rowmill.adopt.guess import words_of_check
from rowmill.adopt.times import sorts_wrongly, unit_of
from rowmill.model.lifecycle import StateKind


@pytest.mark.parametrize("name", ["processing_status", "processingStatus", "Processing Status", "PROCESSING-STATUS"])
def test_the_style_of_a_name_does_not_matter(name: str) -> None:
    assert known_names.plain(name) == "processing_status"


@pytest.mark.parametrize(
    ("word", "others", "kind"),
    [
        ("pending", (), StateKind.READY),
        ("in_progress", (), StateKind.RUNNING),
        ("succeeded", (), StateKind.DONE),
        ("failed", (), StateKind.DEAD),
        ("canceled", (), StateKind.CANCELLED),
        ("retry", ("pending",), StateKind.WAITING),
        ("waiting", ("done",), StateKind.READY),
        ("waiting", ("pending", "done"), StateKind.WAITING),
        ("banana", ("pending",), None),
    ],
)
def test_a_word_means_what_teams_mean_by_it(word: str, others: tuple[str, ...], kind: StateKind | None) -> None:
    assert known_names.meaning(word, frozenset(others)) is kind


@pytest.mark.parametrize(
    ("words", "prefix"),
    [
        (["status_new", "status_done"], "status_"),
        (["in_progress", "in_process"], "in_"),
        (["new", "done"], ""),
        (["link_failed"], ""),
        ([], ""),
    ],
)
def test_a_prefix_that_all_words_share_is_found(words: list[str], prefix: str) -> None:
    assert known_names.shared_prefix(words) == prefix


def test_a_new_word_looks_like_the_others() -> None:
    assert known_names.in_style("failed", ["NEW", "DONE"]) == "FAILED"
    assert known_names.in_style("failed", ["New", "Done"]) == "Failed"
    assert known_names.in_style("failed", ["new", "DONE"]) == "failed"


@pytest.mark.parametrize(
    "condition",
    [
        "status IN ('new', 'it''s done')",
        "(\"status\" in ('new','it''s done'))",
        "status = ANY (ARRAY['new'::text, 'it''s done'::text])",
        "status::text = ANY (ARRAY['new'::character varying, 'it''s done'::character varying]::text[])",
        "((status)::text = ANY ((ARRAY['new'::character varying, 'it''s done'::character varying])::text[]))",
    ],
)
def test_the_words_of_a_check_are_read(condition: str) -> None:
    assert words_of_check(condition, "status") == ["new", "it's done"]


def test_the_codes_of_a_check_are_read() -> None:
    assert words_of_check("status = ANY (ARRAY[0, 1, '-1'::integer])", "status") == ["0", "1", "-1"]


@pytest.mark.parametrize(
    "condition",
    ["length(status) > 2", "status IN ('a') OR other = 1", "other IN ('a', 'b')", "status <> 'x'", "status IN (other)"],
)
def test_a_check_of_another_kind_is_left_alone(condition: str) -> None:
    assert words_of_check(condition, "status") == []


def test_numbers_are_times_only_if_they_can_be() -> None:
    assert unit_of([1_700_000_000, 1_800_000_000.5]) == "s"
    assert unit_of([1_700_000_000_000]) == "ms"
    assert unit_of([300, 600]) is None
    assert unit_of([1_700_000_000, 1_700_000_000_000]) is None


def test_text_of_times_that_sorts_wrongly_is_known() -> None:
    assert sorts_wrongly("2026-01-31T09:00:00")
    assert sorts_wrongly("2026-01-31 09:00:00+02:00")
    assert not sorts_wrongly("2026-01-31 09:00:00")
    assert not sorts_wrongly("2026-01-31 09:00:00.123456")
    assert not sorts_wrongly(1_700_000_000)
