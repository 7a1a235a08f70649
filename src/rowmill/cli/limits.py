"""`rowmill limits`: show limits, and park or switch them."""

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from sqlalchemy import Connection

from rowmill.cli.app import load_mill
from rowmill.cli.exits import UsageError
from rowmill.cli.help import LOOK
from rowmill.cli.options import AppOption, JsonOption, UrlOption
from rowmill.cli.output import clock, duration, emit, table
from rowmill.cli.rows import read
from rowmill.limits import LimitState
from rowmill.limits.state import state_of
from rowmill.mill import Mill
from rowmill.model.limits import strictest
from rowmill.model.option_names import listed
from rowmill.store.limits import declarations, views
from rowmill.store.limits.asks import LimitSummary
from rowmill.store.own import schema

T = TypeVar("T")
LimitArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the limit.")]
LimitKeyOption = Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key. Default: all keys.")]

group = typer.Typer(invoke_without_command=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="limits", rich_help_panel=LOOK)


@group.callback()
def limits(
    context: typer.Context,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key.")] = None,
    most: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", min=1, help="Show at most N keys, those in trouble first.")
    ] = 100,
) -> None:
    """Show limits by key: calls in the window, slots in use, budgets, and providers that are parked, down or off.

    \b
    Example:
      rowmill limits
      rowmill limits --json
      rowmill limits --key tenant-7
      rowmill limits park eqc --seconds 600
      rowmill limits off eqc
      rowmill limits on eqc
    """
    if context.invoked_subcommand is not None:
        return
    mill = load_mill(app, database_url)
    found, known, every = read(mill, lambda connection: states(connection, mill, key, most))
    differ = [one for one in every if one.declared]
    data = {
        "limits": [as_data(state) for state in found],
        "keys": known,
        "differ": [{"limit": one.limit, "declared": one.declared, "holds": one.holds} for one in differ],
    }
    nothing = "no limits: declare one with mill.limit(…)" if key is None else f"no call with key {key} so far"
    emit(data, json, lambda: show(found, known if key is None else 0, nothing, differ))


def states(
    connection: Connection, mill: Mill, key: str | None, most: int
) -> tuple[list[LimitState], int, list[LimitSummary]]:
    """Return the states of all known keys and declared limits, the number of keys, and a summary per limit."""
    seen, every = views.views(connection, key, most), summaries(connection, mill)
    if key is None:
        seen += [views.view(connection, one.limit, views.EVERY) for one in every if not one.keys]
    ours = {limit.name: limit.terms for limit in mill.limits}
    holds = {name: terms.declared for name, terms in ours.items()}
    holds |= {name: strictest(found) for name, found in declarations.living(connection, list(ours)).items()}
    runs = {name: terms.run for name, terms in ours.items()}
    found = [state_of(holds.get(view.name), runs.get(view.name, ""), view) for view in seen]
    return found, sum(one.keys for one in every), every


def summaries(connection: Connection, mill: Mill) -> list[LimitSummary]:
    """Return a summary of every limit that is stored or declared."""
    found = {one.limit: one for one in views.summaries(connection)}
    living = declarations.living(connection)
    for limit in mill.limits:
        one = found.get(limit.name, LimitSummary(limit.name))
        spent = views.spent(connection, limit.name, limit.budget, limit.terms.run) if limit.budget else 0
        found[limit.name] = replace(one, spent=spent)
    for name, ways in living.items():
        if len(ways) > 1:
            one = found.get(name, LimitSummary(name))
            found[name] = replace(one, declared=tuple(map(str, ways)), holds=str(strictest(ways)))
    return [one for _, one in sorted(found.items())]


def as_data(state: LimitState) -> dict[str, Any]:
    data = {name: getattr(state, name) for name in LimitState.__slots__}
    return data | {"available": state.available}


def differing(one: LimitSummary) -> str:
    """Describe a limit that live processes declare differently, and which declaration is in effect."""
    return f"declared in {len(one.declared)} ways ({'; '.join(one.declared)}): the strictest holds, {one.holds}"


def show(found: list[LimitState], keys: int, nothing: str, differ: list[LimitSummary]) -> None:
    if not found:
        print(nothing)
        return
    heads = ["limit", "key", "calls", "at once", "budget", "is"]
    table(heads, [[s.limit, s.key, calls(s), slots(s), budget(s), status(s)] for s in found])
    if keys > len(found):
        print(f"{keys - len(found):,} more keys: rowmill limits -n {keys}, or --key KEY")
    for one in differ:
        print(f"limit {one.limit} is {differing(one)}")


def calls(state: LimitState) -> str:
    return "" if state.calls_limit is None else f"{state.calls:,} of {state.calls_limit:,} in {state.per_seconds:g} s"


def slots(state: LimitState) -> str:
    return "" if state.slots_limit is None else f"{state.slots} of {state.slots_limit}"


def budget(state: LimitState) -> str:
    if state.budget is None:
        return ""
    reserved = f", {state.reserved:,} reserved" if state.reserved else ""
    return f"{state.spent:,} of {state.budget:,}{reserved} ({state.span})"


def status(state: LimitState) -> str:
    parts = []
    if state.off:
        command = ["rowmill", "limits", "on", state.limit, *(["--key", state.key] if state.key else [])]
        parts.append(f"off; on with: {shlex.join(command)}")
    if state.parked_until is not None:
        parts.append(f"parked until {until(state.parked_until)}")
    if state.breaker == "open":
        parts.append("down" + (f", next trial call at {until(state.open_until)}" if state.open_until else ""))
    if state.line_until is not None:
        parts.append(f"the last waiting call gets its turn at {until(state.line_until)}")
    return "; ".join(parts) or ("available" if state.available else "used up for now")


def until(at: datetime) -> str:
    """Format a future time with the time left."""
    left = (at - datetime.now(UTC)).total_seconds()
    return clock(at) + (f" ({duration(left)})" if left > 0 else "")


@group.command()
def park(
    name: LimitArgument,
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", min=0.0, help="How long to stop calls.")] = 300.0,
    key: LimitKeyOption = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Stop calls for a while, in the whole fleet. Rows wait, and no attempt is counted.

    \b
    Example:
      rowmill limits park eqc --seconds 600
      rowmill limits park model --key tenant-7
    """
    mill = known(app, database_url, name)
    change(mill, lambda connection: views.park(connection, name, key or views.EVERY, seconds))
    emit(
        {"limit": name, "key": key, "parked_seconds": seconds}, json, f"{called(name, key)} is parked for {seconds:g} s"
    )


@group.command()
def off(
    name: LimitArgument,
    key: LimitKeyOption = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Stop calls until you switch the limit on again, in the whole fleet. Rows wait, and no attempt is counted.

    \b
    Example:
      rowmill limits off eqc
    """
    mill = known(app, database_url, name)
    change(mill, lambda connection: views.switch_off(connection, name, key or views.EVERY))
    emit({"limit": name, "key": key, "off": True}, json, f"{called(name, key)} is off")


@group.command()
def on(
    name: LimitArgument,
    key: LimitKeyOption = None,
    app: AppOption = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Allow calls again: end `off` and `park`, and close the circuit breaker.

    \b
    Example:
      rowmill limits on eqc
      rowmill limits on model --key tenant-7
    """
    mill = known(app, database_url, name)
    wanted = key or views.EVERY

    def work(connection: Connection) -> tuple[int, bool]:
        changed = views.switch_on(connection, name, wanted)
        return changed, views.view(connection, name, wanted).off

    changed, still_off = change(mill, work)
    text = f"{called(name, key)} is on" if changed else f"{called(name, key)} was on already"
    if still_off:
        text = f"{called(name, key)} stays off with the whole limit. On with: rowmill limits on {shlex.quote(name)}"
    emit({"limit": name, "key": key, "off": still_off, "changed": bool(changed)}, json, text)


def known(app: str | None, database_url: str | None, name: str) -> Mill:
    mill = load_mill(app, database_url)
    if name not in mill.limits:
        known = listed([limit.name for limit in mill.limits], name)
        raise UsageError(f"this mill has no limit {name}. It has: {known}")
    return mill


def change(mill: Mill, work: Callable[[Connection], T]) -> T:
    return asyncio.run(mill.run(schema.checked(work)))


def called(name: str, key: str | None) -> str:
    return f"{name}, key {key}," if key else name
