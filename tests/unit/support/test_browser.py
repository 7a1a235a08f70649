"""A Chromium that is missing, half installed or stuck makes tests skip, with the reason; a slow one is waited for."""

import os
from pathlib import Path

import pytest

from tests.support.browser import browser_page, find_chromium


def program(folder: Path, *lines: str) -> str:
    path = folder / "chromium"
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("lines", "reason"),
    [(["echo 'libnss3.so: cannot open shared object file' >&2; exit 127"], "does not start: libnss3.so"),
     (["exec sleep 60"], "does not start: .*Timeout 500ms")],
    ids=["half installed", "stuck"],
)  # fmt: skip
async def test_one_that_does_not_start_is_skipped_and_not_tried_again(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    broken = program(tmp_path, *lines)
    with pytest.raises(pytest.skip.Exception, match=reason):
        async with browser_page(broken, seconds=0.5):
            pass
    os.unlink(broken)
    with pytest.raises(pytest.skip.Exception, match=reason):
        async with browser_page(broken):
            pass


async def test_no_browser_at_all_is_skipped() -> None:
    with pytest.raises(pytest.skip.Exception, match="no Chromium on the PATH"):
        async with browser_page(None):
            pass


async def test_a_slow_one_is_waited_for(tmp_path: Path) -> None:
    real = find_chromium()
    if real is None:
        pytest.skip("there is no Chromium to be slowed down")
    slow = program(tmp_path, "sleep 2", f'exec {real} "$@"')
    async with browser_page(slow) as page:
        await page.set_content("<p>here</p>")
        assert await page.inner_text("p") == "here"
