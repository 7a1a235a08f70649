"""An application with every feature, for roles that may do only what they need."""

import asyncio
import json
import re
import secrets
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from psycopg.errors import InsufficientPrivilege, UndefinedTable
from sqlalchemy import Column, make_url

import rowmill as rm
from rowmill.cli.main import run
from tests.conformance.fleet import MOMENT, jobs

APP = "tests.security.guild:mill"
SHOP = "Shop Floor"

COLUMNS = rm.Columns(error_code="code", created_at="made_at", updated_at="touched_at", started_at="begun_at")

mill = rm.Mill("postgresql://nobody@localhost:1/nothing")
pieces = mill.queue(
    jobs(
        *(Column(name, MOMENT) for name in ("made_at", "touched_at", "begun_at")),
        *(Column(name, sa.Text) for name in ("code", "topic")),
        Column("rank", sa.Integer),
        name="pieces",
        schema=SHOP,
    ),
    columns=COLUMNS,
    states=rm.States(cancelled="cancelled"),
    stages=[rm.Stage("cut", "ready", "cutting", "waiting"), rm.Stage("sand", "cut", "sanding")],
    order=rm.Order(priority="rank"),
    retry=rm.Retry(attempts=2, backoff=rm.fixed(0)),
)
orders = mill.queue(
    jobs(Column("customer", sa.Text), Column("topic", sa.Text), name="orders"),
    order_per_key=rm.OrderPerKey(per="customer"),
)


@pieces.handler(stage="cut")
async def cut(lease: rm.Lease[Any]) -> Any:
    if lease.row.title == "transient" and lease.attempt == 1:
        raise rm.TransientError
    if lease.row.title == "permanent":
        raise rm.PermanentError
    return {"topic": "cut"}


@pieces.handler(stage="sand")
async def sand(lease: rm.Lease[Any]) -> None:
    async with lease.settling(rm.Done({"topic": "sanded"})) as session:
        await session.execute(sa.select(pieces.table))


@orders.handler()
def deliver(lease: rm.Lease[Any]) -> None:
    with lease.settling(rm.Done({"topic": "delivered"})) as session:
        session.execute(sa.select(orders.table))


@dataclass
class Guild:
    """The database of the application, its owner, and roles that are allowed what they are given."""

    owner: str
    roles: list[str]
    capsys: pytest.CaptureFixture[str]

    def sql(self, *statements: str) -> None:
        """As the owner."""
        with psycopg.connect(self.owner, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def role(self, name: str = "role") -> str:
        """The URL of a new role that may do nothing."""
        made, word = f"{name.title()}_{secrets.token_hex(4)}", secrets.token_hex(8)
        with psycopg.connect(self.owner, autocommit=True) as connection:
            create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
            connection.execute(create.format(sql.Identifier(made), sql.Literal(word)))
        self.roles.append(made)
        return make_url(self.owner).set(username=made, password=word).render_as_string(hide_password=False)

    def run(self, url: str, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = run(["--app", APP, "--database-url", url, *arguments])
        shown = self.capsys.readouterr()
        return code, shown.out, shown.err

    def grants(self, url: str, *options: str) -> list[str]:
        """The statements that the command prints for this role."""
        code, out, err = self.run(self.owner, "grants", "--role", str(make_url(url).username), "--json", *options)
        assert code == 0, err
        return list(json.loads(out)["statements"])

    def granted(self, name: str, *options: str) -> str:
        """The URL of a new role with just these rights."""
        url = self.role(name)
        self.sql(*self.grants(url, *options))
        return url

    def superfluous(self, url: str, wanted: Sequence[str], work: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
        """Those of these rights without which the work of this role can be done all the same."""
        role, found = f'"{make_url(url).username}"', []
        for part in wanted:
            self.sql(f"REVOKE {part} FROM {role}")
            try:
                asyncio.run(work())
            except Exception as error:
                if not denied(error):
                    raise
            else:
                found.append(part)
            self.sql(f"GRANT {part} TO {role}")
        return found


def parts(statements: list[str]) -> list[str]:
    """Each verb, and each column of it, by itself, as REVOKE takes it back."""
    found = []
    for statement in statements:
        granted = re.fullmatch(r"GRANT (.+) ON (.+) TO .+", statement)
        assert granted is not None
        verbs, thing = granted.groups()
        for verb, columns in re.findall(r"(\w+)(?: \(([^)]*)\))?", verbs):
            found += [f"{verb} ({column}) ON {thing}" for column in columns.split(", ")] if columns else []
            found += [] if columns else [f"{verb} ON {thing}"]
    return found


def denied(error: BaseException | None) -> bool:
    """Did the server say, at the bottom of it, that we may not? A table whose schema we may not use is not there."""
    states = []
    while error is not None:
        states.append(getattr(error, "sqlstate", None))
        error = error.__cause__ or error.__context__
    return InsufficientPrivilege.sqlstate in states or UndefinedTable.sqlstate in states


@contextmanager
def guild(owner: str, capsys: pytest.CaptureFixture[str]) -> Iterator[Guild]:
    """A database that allows everybody nothing, as a careful team has it."""
    found = Guild(owner, [], capsys)
    assert found.run(owner, "migrate", "--tables")[0] == 0
    database = make_url(owner).database
    found.sql(
        f'REVOKE ALL ON DATABASE "{database}" FROM PUBLIC',
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "CREATE TABLE ledger (id integer)",
    )
    try:
        yield found
    finally:
        mill.move_to("postgresql://nobody@localhost:1/nothing")
        dropped(found, found.roles)


def dropped(found: Guild, roles: Sequence[str]) -> None:
    with psycopg.connect(found.owner, autocommit=True) as connection:
        for role in roles:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
