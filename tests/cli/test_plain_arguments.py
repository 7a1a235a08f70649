"""The short parser of `work` and `drain` agrees with Typer's, and leaves to it what it does not know."""

import inspect
import shlex
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from rowmill.cli import work
from rowmill.cli.logs import LogFormat
from rowmill.cli.plain_arguments import declared, parse

COMMANDS: dict[str, Callable[..., Any]] = {"work": work.work, "drain": work.drain}

NAMES = ["--app", "--queue", "-q", "-p", "--processes", "--grace", "--poll-max", "--claimed-bytes", "--database-url",
         "--log-level", "--log-format", "--unknown", "--proc"]  # fmt: skip
VALUES = ["app:mill", "files", "4", "0", "-1", "4.5", "0.0001", "1e3", "1_000", "nan", "inf", "\u0661", "512M", "12X",
          "text", "json", "Json", "", "sqlite:///a.db"]  # fmt: skip
ALONE = ["app:mill", "--tracebacks", "--tracebacks=yes", "--no-tracebacks", "--lifeline", "--json", "--help", "--", "-",
         "-qfiles", "-p4"]  # fmt: skip
ARGUMENTS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES))
    | st.builds(lambda name, value: (f"{name}={value}",), st.sampled_from(NAMES), st.sampled_from(VALUES))
    | st.sampled_from(ALONE).map(lambda word: (word,)),
    max_size=3,
).map(lambda parts: list(chain.from_iterable(parts)))


def typers(command: Callable[..., Any], arguments: list[str]) -> dict[str, Any] | None:
    """Return what Typer calls the command with, without defaults; None if it refuses or prints the help."""
    seen: dict[str, Any] = {}

    def call(**given: Any) -> None:
        seen.update(given)

    signature = inspect.signature(command)
    vars(call)["__signature__"] = signature
    call.__annotations__ = command.__annotations__
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(call)
    try:
        typer.main.get_command(app)(args=arguments, standalone_mode=False)
    except (typer.TyperException, typer.Exit):
        return None
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
    return {name: value for name, value in seen.items() if value != defaults[name]} if seen else None


def plain(command: Callable[..., Any], arguments: list[str]) -> dict[str, Any] | None:
    found = parse(command, arguments)
    defaults = {"processes": 1, "log_format": "text"}
    return None if found is None else {name: value for name, value in found.items() if value != defaults.get(name)}


@pytest.mark.parametrize("name", COMMANDS)
@given(ARGUMENTS)
def test_a_call_that_it_accepts_means_the_same_to_typer(name: str, arguments: list[str]) -> None:
    found = plain(COMMANDS[name], arguments)

    assert found is None or found == typers(COMMANDS[name], arguments)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", {}),
        ("app:mill", {"where": "app:mill"}),
        ("app:mill -q files --queue rows", {"where": "app:mill", "queue": ["files", "rows"]}),
        ("--app app:mill --grace=2 --poll-max 0.5", {"app": "app:mill", "grace": 2.0, "poll_max": 0.5}),
        ("--processes 4 --claimed-bytes 1K --lifeline", {"processes": 4, "claimed_bytes": 1024, "lifeline": True}),
        ("--tracebacks --log-format json", {"tracebacks": True, "log_format": "json"}),
    ],
)
def test_usual_calls_are_plain(line: str, expected: dict[str, Any]) -> None:
    found = parse(work.work, shlex.split(line))

    assert found == expected
    assert {name: type(value) for name, value in (found or {}).items()} == {
        name: LogFormat if name == "log_format" else type(value) for name, value in expected.items()
    }


@pytest.mark.parametrize(
    "line",
    ["--help", "-- app:mill", "one:mill two:mill", "--grace -1", "--grace many", "--processes 0", "--grace 1 --grace 2",
     "--log-format xml", "--claimed-bytes 12X", "--tracebacks=yes", "--queue", "--queue ''", "-qfiles", "--unknown"],
)  # fmt: skip
def test_unusual_calls_and_mistakes_are_left_to_typer(line: str) -> None:
    assert parse(work.work, shlex.split(line)) is None


def test_every_parameter_of_a_worker_is_understood() -> None:
    for command in COMMANDS.values():
        assert {parameter.kind for parameter in declared(command)} <= {str, int, float, bool, LogFormat}
        assert all(parameter.info.envvar is None for parameter in declared(command))
