"""A reconciliation whose process is killed between and inside its corrections: none is lost, none is made twice."""

import signal

import pytest

import rowmill as rm
from rowmill.reconcile.spool import PAGE
from tests.reconcile.warehouse import Warehouse
from tests.support.postgres import REPOSITORY
from tests.support.python import run_python

ROWS = 3 * PAGE


def killed_after(url: str, pages: int) -> None:
    ended = run_python("-m", "tests.faults.reconciler", url, str(pages), cwd=REPOSITORY)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


async def test_corrections_of_a_killed_run_are_neither_lost_nor_piled_up(database_url: str) -> None:
    house = await Warehouse(database_url).build()
    await house.put(range(1, ROWS + 1))

    killed_after(database_url, 1)
    assert await house.sent() == list(range(1, PAGE + 1)), "the page that was committed"
    with pytest.raises(rm.errors.ReconciliationBusy):
        await house.declare(correct=house.reprocess).run(execute=True)
    await house.let_run_expire()
    killed_after(database_url, 0)
    await house.let_run_expire()

    documents = house.declare(correct=house.reprocess, cap=None)
    report = await documents.run(execute=True)

    assert (report.drift, report.corrected) == (ROWS, ROWS - PAGE)
    assert await house.sent() == list(range(1, ROWS + 1)), "each once"
    assert (await documents.run(execute=True)).corrected == 0
    assert [(one.outcome, one.corrected) for one in await documents.history()] == [
        ("ok", 0),
        ("ok", ROWS - PAGE),
        ("abandoned", 0),
        ("abandoned", PAGE),
    ]
