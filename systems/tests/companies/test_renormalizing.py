"""Requests that other rules normalised become requests of here: one open request and one id for a name."""

from itertools import pairwise, permutations
from typing import Any

import pytest
import sqlalchemy as sa

from rowmill_systems.companies.companies import Companies
from rowmill_systems.companies.lookup import LookupDecision, LookupOutcome
from rowmill_systems.companies.renormalizing import RenormalizeReport, in_layers, renormalize
from rowmill_systems.companies.reviews import record_review
from rowmill_systems.companies.temp_id_filling import fill_temp_ids
from rowmill_systems.companies.temp_ids import normalize_for_temp_id
from rowmill_systems.companies.write_back import ROWS, register_target, unregister_target
from systems.tests.companies.harness import sync_companies

Rows = list[tuple[str, str, str]]


def put(companies: Companies, rows: Rows) -> None:
    """Insert requests by raw name, foreign normal form and status, and a target with a row of each of their ids."""
    requests = companies.tables.requests
    with companies.engine.begin() as connection:
        for raw, form, status in rows:
            values = {"raw_name": raw, "normalized_name": form, "status": status}
            if status == "done":
                values["resolved_company_id"] = f"C-{raw}"
            connection.execute(sa.insert(requests).values(values))
        fill_temp_ids(connection, companies.tables, companies.salts)
        connection.exec_driver_sql("CREATE TABLE policies (id INTEGER PRIMARY KEY, company_id VARCHAR(40))")
        register_target(connection, "policies", "company_id")
        policies = sa.table("policies", sa.column("id"), sa.column("company_id"))
        ids = connection.scalars(sa.select(requests.c.temp_id).order_by(requests.c.id)).all()
        connection.execute(sa.insert(policies), [{"id": n, "company_id": each} for n, each in enumerate(ids)])


def requests(companies: Companies) -> list[Any]:
    with companies.engine.connect() as connection:
        c = companies.tables.requests.c
        return list(connection.execute(sa.select(companies.tables.requests).order_by(c.id)))


def policies(companies: Companies) -> list[str]:
    with companies.engine.connect() as connection:
        return list(connection.exec_driver_sql("SELECT company_id FROM policies ORDER BY id").scalars())


def test_forms_and_ids_are_made_anew_and_one_request_stays_open(database_url: str) -> None:
    with sync_companies(database_url) as (companies, _):
        put(
            companies,
            [
                ("Acme Ltd", "ACME", "pending"),
                ("acme ltd.", "ACME LTD", "pending"),
                ("Bolt GmbH", "BOLT", "done"),
                ("Cog", normalize_for_temp_id("Cog"), "pending"),
                ("Dent AG", "DENT", "processing"),
                ("N/A", "NA", "failed"),
            ],
        )
        before = requests(companies), policies(companies)
        plan = renormalize(companies, plan_only=True)
        assert (plan.requests, plan.merged, plan.busy, plan.rows) == (3, 1, 1, 0)
        assert (requests(companies), policies(companies)) == before, "a plan changes nothing"
        done = renormalize(companies)
        assert (done.requests, done.merged, done.busy, done.rows) == (3, 1, 1, 3)
        acme, other, bolt, cog, dent, nothing = requests(companies)
        form = normalize_for_temp_id("Acme Ltd")
        assert [(row.normalized_name, row.status, row.outcome) for row in (acme, other)] == [
            (form, "pending", None), (form, "done", "merged"),
        ]  # fmt: skip
        assert {row.temp_id for row in (acme, other)} == {companies.salts.temp_id(form)}
        assert (bolt.normalized_name, bolt.status) == (normalize_for_temp_id("Bolt GmbH"), "done")
        assert (cog, dent, nothing) == tuple(before[0][3:])
        assert policies(companies) == [
            companies.salts.temp_id(form), companies.salts.temp_id(form), "C-Bolt GmbH", *before[1][3:],
        ]  # fmt: skip
        assert renormalize(companies) == RenormalizeReport(busy=1, last_id=nothing.id), "again, nothing is changed"


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_an_interrupted_pass_goes_on_where_it_was(database_url: str, stop: int) -> None:
    names = [f"Company {number} Ltd" for number in range(6)]
    with sync_companies(database_url) as (companies, _):
        put(companies, [(name, name.upper(), "pending") for name in names])
        seen: list[int] = []

        def interrupt(done: RenormalizeReport) -> None:
            seen.append(done.requests)
            if len(seen) == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            renormalize(companies, batch=2, progress=interrupt)
        rest = renormalize(companies, batch=2)
        assert seen[-1] + rest.requests == 6
        assert [row.normalized_name for row in requests(companies)] == [normalize_for_temp_id(name) for name in names]
        assert policies(companies) == [companies.salts.temp_id(normalize_for_temp_id(name)) for name in names]


def test_an_id_that_stood_for_several_names_is_kept(database_url: str) -> None:
    """Its rows can't be told apart: they follow the request that has it."""
    with sync_companies(database_url) as (companies, _):
        put(companies, [("Acme Ltd", "ACME", "failed"), ("Acme GmbH", "ACME", "pending")])
        shared = policies(companies)
        renormalize(companies)
        assert [row.temp_id for row in requests(companies)] == shared == policies(companies)


def put_named(companies: Companies, rows: Rows, copies: int = 1) -> None:
    """Insert requests, and a target whose rows say whose they are. Nobody has a company."""
    requests = companies.tables.requests
    with companies.engine.begin() as connection:
        for raw, form, status in rows:
            connection.execute(sa.insert(requests).values(raw_name=raw, normalized_name=form, status=status))
        fill_temp_ids(connection, companies.tables, companies.salts)
        connection.exec_driver_sql("CREATE TABLE contracts (company_id VARCHAR(40), owner VARCHAR(40))")
        connection.exec_driver_sql("CREATE INDEX ix_contracts ON contracts (company_id)")
        register_target(connection, "contracts", "company_id")
        contracts = sa.table("contracts", sa.column("company_id"), sa.column("owner"))
        found = connection.execute(sa.select(requests.c.temp_id, requests.c.raw_name)).all()
        values = [{"company_id": each.temp_id, "owner": each.raw_name} for each in found for _ in range(copies)]
        connection.execute(sa.insert(contracts), values)


def owners(companies: Companies) -> set[tuple[str, str, int]]:
    with companies.engine.connect() as connection:
        grouped = "SELECT company_id, owner, count(*) FROM contracts GROUP BY company_id, owner"
        return {tuple(row) for row in connection.exec_driver_sql(grouped)}


def id_of(companies: Companies, name: str) -> str:
    return companies.salts.temp_id(normalize_for_temp_id(name))


@pytest.mark.parametrize("status", ["pending", "done", "failed"])
@pytest.mark.parametrize("batch", [1, 500])
def test_a_form_that_another_name_has_still_is_given_up_first(database_url: str, status: str, batch: int) -> None:
    """No request is merged into one for another name, and no two names get one id."""
    names = ["Acme Ltd", "Acme Ltd Holding"]
    with sync_companies(database_url) as (companies, _):
        put_named(companies, [(names[0], "acme", "pending"), (names[1], normalize_for_temp_id(names[0]), status)])
        done = renormalize(companies, batch=batch)
        assert (done.requests, done.merged, done.busy, done.rows) == (2, 0, 0, 2)
        found = requests(companies)
        assert [row.status for row in found] == ["pending", status]
        assert [row.normalized_name for row in found] == [normalize_for_temp_id(name) for name in names]
        assert [row.temp_id for row in found] == [id_of(companies, name) for name in names]
        assert owners(companies) == {(id_of(companies, name), name, 1) for name in names}


def test_an_id_that_another_name_keeps_is_not_taken(database_url: str) -> None:
    """It is being looked up: whoever waits for its id, and whoever waits for theirs, is for the next pass."""
    first, second, third = names = ["Alpha One", "Beta Two", "Gamma Three"]
    with sync_companies(database_url) as (companies, _):
        forms = ["alpha", normalize_for_temp_id(first), normalize_for_temp_id(second)]
        put_named(
            companies, [(first, forms[0], "failed"), (second, forms[1], "pending"), (third, forms[2], "processing")]
        )
        before = requests(companies), owners(companies)
        done = renormalize(companies)
        assert (done.requests, done.busy, done.rows) == (0, 3, 0)
        assert (requests(companies), owners(companies)) == before
        with companies.engine.begin() as connection:
            connection.execute(sa.update(companies.tables.requests).values(status="pending"))
        assert renormalize(companies).busy == 0
        assert owners(companies) == {(id_of(companies, name), name, 1) for name in names}


@pytest.mark.parametrize("status", ["pending", "done"])
def test_each_name_of_a_chain_or_a_circle_keeps_its_own_rows(database_url: str, status: str) -> None:
    """With more rows of each than one statement changes."""
    chain, circle = ["Alpha One", "Beta Two", "Gamma Three"], ["Delta Four", "Epsilon Five"]
    with sync_companies(database_url) as (companies, _):
        normal = normalize_for_temp_id
        rows = [(chain[0], "ALPHA", status), *((b, normal(a), status) for a, b in pairwise(chain))]
        rows += [(a, normal(b), status) for a, b in permutations(circle)]
        put_named(companies, rows, copies=ROWS // 2 + 1)
        plan = renormalize(companies, plan_only=True)
        done = renormalize(companies, batch=2)
        assert (plan.requests, plan.busy, done.requests, done.busy) == (5, 0, 5, 0)
        assert owners(companies) == {(id_of(companies, name), name, ROWS // 2 + 1) for name in chain + circle}
        assert {row.raw_name: row.normalized_name for row in requests(companies)} == {
            name: normal(name) for name in chain + circle
        }
        assert {row.status for row in requests(companies)} == {status}
        assert renormalize(companies).requests == 0


def test_a_target_that_can_t_be_written_leaves_a_chain_as_it_was(database_url: str) -> None:
    """Half of it would be rows of two names with one id. The others get their forms, and keep their ids."""
    with sync_companies(database_url) as (companies, _):
        normal = normalize_for_temp_id
        put_named(
            companies,
            [
                ("Alpha One", normal("Beta Two"), "done"),
                ("Beta Two", normal("Alpha One"), "pending"),
                ("Cog Ltd", "COG", "failed"),
            ],
        )
        with companies.engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE lost (company_id VARCHAR(40))")
            register_target(connection, "lost", "company_id")
            connection.exec_driver_sql("DROP TABLE lost")
        before = requests(companies), owners(companies)
        done = renormalize(companies)
        assert (done.requests, done.busy, done.rows) == (1, 2, 0)
        assert requests(companies)[:2] == before[0][:2]
        cog = requests(companies)[2]
        assert (cog.normalized_name, cog.temp_id) == (normal("Cog Ltd"), before[0][2].temp_id)
        assert owners(companies) == before[1]
        with companies.engine.begin() as connection:
            errors = connection.scalars(sa.select(companies.tables.targets.c.last_error)).all()
            assert [error is None for error in errors] == [True, False]
            unregister_target(connection, "lost", "company_id")
        assert renormalize(companies).busy == 0
        assert (id_of(companies, "Alpha One"), "Alpha One", 1) in owners(companies)


def test_layers_replace_no_id_twice() -> None:
    given = {"a": "b", "b": "c", "c": "a", "x": "a", "y": "z", "z": "end"}
    layers = list(in_layers(given, "parked {}".format))
    assert all(not set(layer) & set(layer.values()) for layer in layers)
    rows = {old: old for old in given}
    for layer in layers:
        rows = {owner: layer.get(at, at) for owner, at in rows.items()}
    assert rows == given


def test_open_reviews_get_the_new_form_too(database_url: str) -> None:
    with sync_companies(database_url) as (companies, _), companies.engine.connect() as connection:
        for form in ("ACME", "OLD ACME"):
            record_review(
                connection, companies.tables, normalized_name=form, raw_name="Acme Ltd",
                decision=LookupDecision(LookupOutcome.UNSURE, "eqc"),
            )  # fmt: skip
        connection.commit()
        renormalize(companies)
        c = companies.tables.reviews.c
        found = connection.scalars(sa.select(c.normalized_name).order_by(c.id)).all()
        assert found == [normalize_for_temp_id("Acme Ltd"), "OLD ACME"]
