"""Errors: their types, what they carry, and the page that lists their codes."""

import inspect
import re
from pathlib import Path

import pytest

import rowmill as rm
from rowmill_systems.intake import errors
from rowmill_systems.intake.errors import DocumentAnalysisError, ImageAnalysisError, RetryableError
from rowmill_systems.parts.models import ModelAnswerUnreadable, ModelRejected
from systems.tests.intake.harness import FakeAnalyzer, intake_on

PAGE = Path(__file__).parents[3] / "docs" / "systems" / "intake.md"
OF_THE_MODEL = {
    ModelAnswerUnreadable.code: ModelAnswerUnreadable.retryable,
    ModelRejected.code: ModelRejected.retryable,
    **{kind.code: True for kind in (rm.RateLimited, rm.errors.ProviderDown, rm.errors.ProviderRefused)},
}
"""Codes that a model behind the seam adds: whether they may be tried again."""


def kinds() -> list[type[RetryableError]]:
    found = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, RetryableError)]
    return [kind for kind in found if kind.__module__.startswith("rowmill_systems.")]


def test_the_page_lists_every_code_on_its_side() -> None:
    """F5: codes are stable, so people write them down."""
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    table = [row for row in rows if len(row) == 4]
    listed = {code: False for row in table for code in re.findall(r"`([a-z_]+)`", row[0])}
    listed |= {code: True for row in table for code in re.findall(r"`([a-z_]+)`", row[2])}
    assert listed == {kind.code: kind.retryable for kind in kinds()} | OF_THE_MODEL


def test_every_error_is_retryable_or_not_and_says_so() -> None:
    """F5."""
    every: list[type[RetryableError]] = [errors.TransientError, errors.PermanentError, *kinds()]
    for kind in every:
        error = kind("words")
        assert (error.code, error.retryable) == (kind.code, not isinstance(error, errors.PermanentError))
    assert issubclass(errors.CorruptFile, DocumentAnalysisError)
    assert issubclass(errors.OcrFailed, ImageAnalysisError)


@pytest.mark.parametrize("kind", [RetryableError, DocumentAnalysisError, ImageAnalysisError])
@pytest.mark.parametrize(("retryable", "state"), [(True, "queued"), (False, "failed")])
async def test_who_reads_otherwise_says_whether_a_file_is_tried_again(
    database_url: str, tmp_path: Path, kind: type[RetryableError], retryable: bool, state: str
) -> None:
    """F5: by what the error carries, not by its class alone."""
    analyzer = FakeAnalyzer()
    analyzer.failure = kind("words", code="no_glyphs", retryable=retryable)
    async with intake_on(database_url, tmp_path, analyzer) as harness:
        number = await harness.put("total: 1")
        await harness.drain()
        row = await harness.file(number)
        assert (row.processing_status, row.processing_error) == (state, "no_glyphs: words")
