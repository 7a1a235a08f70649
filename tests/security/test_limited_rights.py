"""A role with the rights that `rowmill grants` prints keeps to limits, by functions that not everybody may call."""

import asyncio
import secrets
from dataclasses import replace
from functools import partial

import psycopg
import pytest
from sqlalchemy import make_url

from rowmill.cli.exits import Exit
from rowmill.store.limits import sweeping
from rowmill.store.limits.asks import FinishCalls, TakePermits
from rowmill.store.limits.declarations import declare
from rowmill.store.own import privileges
from tests.security import guild
from tests.security.limited import mill, post


@pytest.fixture(autouse=True)
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guild, "APP", "tests.security.limited:mill")
    monkeypatch.setattr(guild, "mill", mill)


def careful(found: guild.Guild) -> None:
    found.sql("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA rowmill FROM PUBLIC")


def test_a_worker_works_a_queue_with_limits(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with guild.guild(pg_url, capsys) as found:
        careful(found)
        url = found.granted("worker")
        found.sql("INSERT INTO letters (title, state) SELECT 'a', 'ready' FROM generate_series(1, 5)")
        code, out, err = found.run(url, "drain", "--json")
        assert code == 0, out + err
        for command in (["limits"], ["stats"], ["why", "letters", "1"]):
            assert found.run(url, *command)[0] == 0
        with psycopg.connect(url, autocommit=True) as connection:
            assert connection.execute("SELECT state, count(*) FROM letters GROUP BY state").fetchall() == [("done", 5)]
            for statement in ("UPDATE rowmill.limiter SET key = ''", "UPDATE rowmill.ticket SET id = 1",
                              "DROP FUNCTION rowmill.limit_take"):  # fmt: skip
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement.encode())


def test_an_operator_parks_switches_off_and_on(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with guild.guild(pg_url, capsys) as found:
        careful(found)
        url = found.granted("operator", "--operator")
        for command in (["park", "post"], ["off", "post", "--key", "a"], ["on", "post"]):
            code, _, err = found.run(url, "limits", *command)
            assert code == 0, err


def test_a_worker_that_may_not_keep_to_limits_says_so_before_it_takes_a_row(
    pg_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with guild.guild(pg_url, capsys) as found:
        careful(found)
        url = found.granted("worker")
        found.sql(f'REVOKE EXECUTE ON FUNCTION rowmill.limit_take FROM "{make_url(url).username}"')
        found.sql("INSERT INTO letters (title, state) VALUES ('a', 'ready')")
        code, _, err = found.run(url, "drain")
        assert code == Exit.SCHEMA
        assert "it lacks EXECUTE on function rowmill.limit_take." in err


async def everything(url: str) -> None:
    """All that limits ask of the database, without the look at the rights that comes first."""
    mill.move_to(url)
    async with mill.opened() as store:
        terms, key = post.terms, secrets.token_hex(4)
        spans = [] if terms.budget is None else terms.budget.spans(1_000_000.0, terms.run)
        ask = TakePermits(terms.rules, key, 1, [secrets.randbits(62)], [1], spans, at=1_000_000.0)
        [taken] = await store.limiter.take([ask])
        assert taken.granted == 1
        another = replace(ask, rules=replace(terms.rules, width=terms.rules.width / 2), tickets=[secrets.randbits(62)])
        await store.limiter.take([another])  # as after a change of the declaration
        await store.limiter.renew(ask.tickets, 30.0)
        await store.limiter.finish(FinishCalls(terms.rules, key, "ok", ask.tickets, [1], [1], [taken.span]))
        await store.run(lambda connection: declare(connection, {post.name: terms.declared}))
        await store.run(lambda connection: sweeping.sweep(connection, 10))


def test_each_right_is_needed(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with guild.guild(pg_url, capsys) as found:
        careful(found)
        url = found.granted("worker")
        asyncio.run(everything(url))
        wanted = guild.parts(privileges.grants(privileges.of_limits(), "w", mill.store.dialect.identifier_preparer))
        assert len(wanted) > 20
        assert found.superfluous(url, wanted, partial(everything, url)) == []
