"""outbox stats, outbox list: on an outbox of the example's application."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli import example
from tests.cli.conftest import Shell
from tests.outbox.post import Post
from tests.outbox.test_stats import outcomes


@pytest.fixture
def post(shell: Shell) -> Iterator[Post]:
    post = Post(example.mill, example.mill.outbox())

    async def fill() -> None:
        async with example.mill.opened():
            await example.mill.migrate(tables=True)
            await outcomes(post)

    try:
        asyncio.run(fill())
        yield post
    finally:
        for declared in (example.mill.queues, example.mill.outboxes):
            declared.pop("outbox")


def listed(shell: Shell, *options: str) -> Any:
    return shell.ok("outbox", "list", "--json", *options).json["events"]


def test_the_numbers(shell: Shell, post: Post) -> None:
    answer = shell.ok("outbox", "stats", "--json").json
    assert (answer["outbox"], answer["pending_events"], answer["failed_events"]) == ("outbox", 6, 1)
    assert answer["processed_last_hour"] == 5
    assert "pending events" in shell.ok("outbox", "stats", "outbox").out


def test_events_are_listed_without_their_payloads(shell: Shell, post: Post) -> None:
    [dead] = listed(shell, "--dead")
    assert (dead["event_type"], dead["aggregate_id"], dead["kind"]) == ("bad", "a", "dead")
    assert dead["last_error"] == "broken: no use"
    assert "payload" not in dead
    assert [event["state"] for event in listed(shell, "--aggregate", "a")] == ["dead", "pending", "pending"]
    assert len(listed(shell, "--type", "good", "--state", "processed")) == 4
    assert "broken: no use" in shell.ok("outbox", "list", "--dead").out
    assert "and more" in shell.ok("outbox", "list", "-n", "2").out
    assert shell.ok("outbox", "list", "--type", "none").out == "no events\n"


def test_a_dead_event_is_requeued_like_any_row(shell: Shell, post: Post) -> None:
    [dead] = listed(shell, "--dead")
    shell.ok("requeue", "outbox", "--key", dead["id"], "--yes")
    assert listed(shell, "--dead") == []
    assert [event["attempts"] for event in listed(shell, "--aggregate", "a")] == [0, 0, 0]


def test_which_outbox(shell: Shell, post: Post) -> None:
    example.mill.outboxes["other"] = post.outbox
    try:
        answer = shell("outbox", "stats")
        assert (answer.code, "which outbox? This mill has: outbox, other" in answer.err) == (2, True)
    finally:
        example.mill.outboxes.pop("other")
    answer = shell("outbox", "list", "nothing")
    assert (answer.code, "this mill has no outbox nothing" in answer.err) == (2, True)


def test_without_an_outbox_the_command_says_so(shell: Shell) -> None:
    answer = shell("outbox", "stats")
    assert answer.code == 2
    assert "declare one with mill.outbox()" in answer.err
