"""The guide to a worker inside a web application does what it says."""

import asyncio
import json
import re
from typing import Any

import pytest

from rowmill.integrations.fastapi import AppWorkerStatus
from tests.docs.pages import ROOT, run_page
from tests.support.web import client_of

pytestmark = pytest.mark.empty_database
PAGE = "docs/guides/worker-in-app.md"


@pytest.mark.parametrize("name", ["app", "plain"])
async def test_the_applications_of_the_guide_work(
    database_url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    guide = run_page(PAGE)
    mill, mails = guide["mill"], guide["mails"]
    await mill.migrate(tables=True)
    async with client_of(guide[name]) as client, asyncio.timeout(60):
        await mill.run(lambda connection: connection.execute(mails.insert([{"address": "a"}])).close())
        while (await mails.counts()).done != 1:
            await asyncio.sleep(0.02)
        while (answer := await client.get("/health")).status_code != 200:
            await asyncio.sleep(0.02)
        found: Any = answer.json()
    shown = re.search(r'^    (\{"status".*?\}\}\}\]\})$', (ROOT / PAGE).read_text(), re.DOTALL | re.MULTILINE)
    assert shown is not None
    promised = json.loads(shown[1])
    assert found.keys() == promised.keys()
    assert found["workers"][0].keys() == promised["workers"][0].keys()
    assert found["workers"][0]["queues"]["mail"].keys() == promised["workers"][0]["queues"]["mail"].keys()


def test_the_guide_names_every_status() -> None:
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / PAGE).read_text(), re.MULTILINE)
    assert sorted(table) == sorted(AppWorkerStatus)
