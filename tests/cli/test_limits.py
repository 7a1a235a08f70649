"""limits: how they stand, and the operator's hand on them."""

import asyncio

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.store.limiting import views
from tests.cli.conftest import Shell
from tests.cli.example import eqc, files, mill
from tests.cli.test_why import holds


def call(shell: Shell, key: str = "") -> None:
    async def once() -> None:
        async with eqc.call(key):
            pass

    mill.move_to(shell.url)
    asyncio.run(once())


def test_a_limit_that_nobody_has_used(shell: Shell) -> None:
    [limit] = shell.ok("limits", "--json").json["limits"]
    assert (limit["limit"], limit["calls"], limit["calls_limit"], limit["available"]) == ("eqc", 0, 2, True)
    assert "0 of 2 in 3600 s" in shell.ok("limits").out


def test_what_is_used_is_shown_by_key(shell: Shell) -> None:
    call(shell, "tenant")
    call(shell, "tenant")
    [limit] = shell.ok("limits", "--json").json["limits"]
    assert (limit["key"], limit["calls"], limit["spent"], limit["slots"]) == ("tenant", 2, 2, 0)
    shown = shell.ok("limits").out
    assert "2 of 1,000" in shown
    assert "used up for now" in shown


def test_off_park_and_on(shell: Shell) -> None:
    assert shell.ok("limits", "off", "eqc", "--json").json == {"limit": "eqc", "key": None, "off": True}
    with pytest.raises(rm.Limited, match="eqc"):
        call(shell, "tenant")
    assert "rowmill limits on eqc" in shell.ok("limits").out
    assert "is on" in shell.ok("limits", "on", "eqc").out
    call(shell, "tenant")
    shell.ok("limits", "park", "eqc", "--seconds", "60", "--key", "tenant")
    assert "parked until" in shell.ok("limits").out
    call(shell, "other")
    with pytest.raises(rm.Limited):
        call(shell, "tenant")
    assert shell.ok("limits", "on", "eqc", "--key", "tenant", "--json").json["changed"]
    assert "was on already" in shell.ok("limits", "on", "eqc").out


def test_a_limit_that_is_not_there(shell: Shell) -> None:
    answer = shell("limits", "off", "nobody")
    assert (answer.code, "It has: eqc" in answer.err) == (2, True)


def test_why_names_the_limit_that_a_row_waits_for(shell: Shell) -> None:
    at = shell.now(files, "available_at", 600)
    shell.put(files, {"id": 1, "status": "queued", "available_at": at, "error": "limit_budget: eqc tenant 7"})
    hold = holds(shell, "files", 1)[0]
    assert (hold["reason"], hold["facts"]["limit"], hold["facts"]["key"]) == ("limit", "eqc", "tenant 7")
    assert "it waits for limit eqc (key tenant 7) until" in hold["text"]
    assert "its budget is spent or reserved" in hold["text"]


def test_limits_that_the_application_does_not_know_are_shown_too(shell: Shell) -> None:
    shell.do(lambda connection: views.switch_off(connection, "former", ""))
    names = {limit["limit"]: limit["off"] for limit in shell.ok("limits", "--json").json["limits"]}
    assert names == {"eqc": False, "former": True}


def test_a_database_of_another_version_is_said(shell: Shell) -> None:
    meta = "rowmill.meta" if mill.store.dialect.name == "postgresql" else "rowmill_meta"
    shell.do(lambda connection: connection.execute(sa.text(f"DELETE FROM {meta} WHERE version > 1")))
    assert shell("limits").code == 4
