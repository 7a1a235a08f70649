"""limits: how they stand, and the operator's hand on them."""

import asyncio

import pytest
import sqlalchemy as sa

import rowmill as rm
from rowmill.store.limits import views
from tests.cli.conftest import Shell
from tests.cli.example import eqc, events, files, mill
from tests.cli.test_why import holds, worker


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


def test_what_is_well_is_not_called_as_a_breaker_is_that_shuts_calls_out(shell: Shell) -> None:
    call(shell, "tenant")
    assert "available" in shell.ok("limits").out
    assert "limit eqc: 1 key in use, none in trouble" in shell.ok("stats").out


def test_a_key_that_nobody_has_used(shell: Shell) -> None:
    assert "no call with key tenant-8" in shell.ok("limits", "--key", "tenant-8").out


def test_the_help_has_examples(shell: Shell) -> None:
    assert "rowmill limits --key tenant-7" in shell.ok("limits", "--help").out


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
    with pytest.raises(rm.errors.Limited, match="eqc"):
        call(shell, "tenant")
    assert "rowmill limits on eqc" in shell.ok("limits").out
    assert "is on" in shell.ok("limits", "on", "eqc").out
    call(shell, "tenant")
    shell.ok("limits", "park", "eqc", "--seconds", "60", "--key", "tenant")
    assert "parked until" in shell.ok("limits").out
    call(shell, "other")
    with pytest.raises(rm.errors.Limited):
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
    assert "its budget is spent" in hold["text"]


def test_why_names_the_limit_that_would_refuse_a_row_which_has_not_asked_yet(shell: Shell) -> None:
    shell.put(events, {"id": 1, "aggregate": "a", "state": "ready"})
    worker(shell, 1, "events")
    assert [hold["reason"] for hold in holds(shell, "events", 1)] == ["ready"]
    shell.ok("limits", "off", "eqc")
    [hold] = holds(shell, "events", 1)
    assert (hold["reason"], hold["facts"]["limit"], hold["facts"]["why"]) == ("limit", "eqc", "off")
    assert "limit eqc lets no row through: it is switched off" in hold["text"]
    shell.ok("limits", "on", "eqc")
    call(shell)
    call(shell)
    [hold] = holds(shell, "events", 1)
    assert hold["facts"]["why"] == "rate"


def test_a_limit_is_named_once_for_a_row_that_it_has_put_back(shell: Shell) -> None:
    at = shell.now(events, "available_at", 600)
    shell.put(events, {"id": 1, "aggregate": "a", "state": "ready", "available_at": at, "error": "limit_off: eqc"})
    worker(shell, 1, "events")
    shell.ok("limits", "off", "eqc")
    assert [hold["reason"] for hold in holds(shell, "events", 1)] == ["limit"]


def test_why_does_not_speak_of_limits_where_a_row_has_ended(shell: Shell) -> None:
    shell.put(events, {"id": 1, "aggregate": "a", "state": "done"})
    shell.ok("limits", "off", "eqc")
    assert [hold["reason"] for hold in holds(shell, "events", 1)] == ["done"]


def test_stats_tell_of_budgets_that_are_spent(shell: Shell) -> None:
    async def once() -> None:
        async with eqc.call("tenant", cost=1000):
            pass

    mill.move_to(shell.url)
    asyncio.run(once())
    call(shell, "other")
    assert shell.ok("stats", "--json").json["limits"][0]["spent"] == 1
    assert "limit eqc: 2 keys in use, 1 spent" in shell.ok("stats").out


def test_limits_that_the_application_does_not_know_are_shown_too(shell: Shell) -> None:
    shell.do(lambda connection: views.switch_off(connection, "former", ""))
    names = {limit["limit"]: limit["off"] for limit in shell.ok("limits", "--json").json["limits"]}
    assert names == {"eqc": False, "former": True}


def test_a_database_of_another_version_is_said(shell: Shell) -> None:
    meta = "rowmill.meta" if mill.store.dialect.name == "postgresql" else "rowmill_meta"
    shell.do(lambda connection: connection.execute(sa.text(f"DELETE FROM {meta} WHERE version > 1")))
    assert shell("limits").code == 4


def test_many_keys_are_cut_short_those_in_trouble_first(shell: Shell) -> None:
    for tenant in ("a", "b", "it's c"):
        call(shell, tenant)
    shell.ok("limits", "off", "eqc", "--key", "it's c")
    few = shell.ok("limits", "-n", "2", "--json").json
    assert ([limit["key"] for limit in few["limits"]], few["keys"]) == (["it's c", "b"], 3)
    shown = shell.ok("limits", "-n", "2").out
    assert "1 more keys" in shown
    assert """rowmill limits on eqc --key 'it'"'"'s c'""" in shown
    assert [limit["calls"] for limit in shell.ok("limits", "--key", "a", "--json").json["limits"]] == [1]


def test_a_key_does_not_go_on_while_the_whole_limit_is_off(shell: Shell) -> None:
    shell.ok("limits", "off", "eqc")
    assert "On with: rowmill limits on eqc" in shell.ok("limits", "on", "eqc", "--key", "tenant").out
    assert shell.ok("limits", "on", "eqc", "--key", "tenant", "--json").json["off"]
    assert not shell.ok("limits", "on", "eqc", "--json").json["off"]


def test_stats_have_a_line_for_each_limit(shell: Shell) -> None:
    unused = {"limit": "eqc", "keys": 0, "off": 0, "parked": 0, "down": 0, "spent": 0, "declared": [], "holds": ""}
    assert shell.ok("stats", "--json").json["limits"] == [unused]
    for tenant in ("a", "b", "c"):
        call(shell, tenant)
    shell.ok("limits", "park", "eqc", "--key", "a")
    shell.ok("limits", "off", "eqc", "--key", "b")
    assert shell.ok("stats", "--json").json["limits"] == [unused | {"keys": 3, "off": 1, "parked": 1}]
    assert "limit eqc: 3 keys in use, 1 off, 1 parked" in shell.ok("stats").out
