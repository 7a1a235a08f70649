"""K8: what administrators see and do over HTTP."""

import asyncio
from pathlib import Path

from systems.tests.knowledge.harness import PAPER, drain, sql
from systems.tests.knowledge.web.served import ADMINISTRATOR, EDITOR, PASSWORD, VIEWER, ServedKnowledge, served

FIELDS = {
    "pending_events", "failed_events", "processed_last_hour", "processed_last_24h", "queue_depth",
    "average_processing_time_ms",
}  # fmt: skip


async def stats(harness: ServedKnowledge) -> dict[str, float | None]:
    found: dict[str, float | None] = await harness.json("GET", "/admin/outbox/stats", role=ADMINISTRATOR)
    return found


async def kill_event(harness: ServedKnowledge) -> None:
    """Use up the attempts of what is pending."""
    await sql(harness.knowledge, "UPDATE outbox SET state = 'dead', attempts = 5 WHERE state = 'pending'")


async def test_administrators_see_how_the_outbox_stands(database_url: str, tmp_path: Path) -> None:
    """K8."""
    async with served(database_url, tmp_path) as harness:
        assert await stats(harness) == dict.fromkeys(FIELDS, 0) | {"average_processing_time_ms": None}
        kb = await harness.kb()
        for name in "ab":
            await harness.json("DELETE", f"/kbs/{await harness.kb(name)}", 202)
        await drain(harness.knowledge)
        created = {"postgresql": "processed_at - interval '2 seconds'"}.get(
            database_url.split("+")[0].split(":")[0], "strftime('%Y-%m-%d %H:%M:%f000', processed_at, '-2 seconds')"
        )
        await sql(harness.knowledge, f"UPDATE outbox SET created_at = {created}")
        await harness.upload(kb, PAPER)
        await kill_event(harness)
        await harness.upload(kb, PAPER)
        found = await stats(harness)
        assert set(found) == FIELDS
        average = found.pop("average_processing_time_ms")
        assert average is not None
        assert abs(average - 2000) < 1
        assert found == {
            "pending_events": 1,
            "failed_events": 1,
            "processed_last_hour": 2,
            "processed_last_24h": 2,
            "queue_depth": 1,
        }


async def test_who_may_see_it(sqlite_url: str, tmp_path: Path) -> None:
    """K8: 401 without a login, 403 without the right, which ends as soon as it is taken away."""
    async with served(sqlite_url, tmp_path) as harness:
        for role, status in ((None, 401), (VIEWER, 403), (EDITOR, 403), (ADMINISTRATOR, 200)):
            assert (await harness.ask("GET", "/admin/outbox/stats", role=role)).status_code == status
        await sql(harness.knowledge, "UPDATE users SET is_superuser = NOT is_superuser")
        for role, status in ((VIEWER, 200), (EDITOR, 200), (ADMINISTRATOR, 403)):
            assert (await harness.ask("GET", "/admin/outbox/stats", role=role)).status_code == status


async def test_dead_events_are_listed_and_tried_again(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path) as harness:
        kb, done = await harness.kb(), await harness.kb()
        await harness.json("DELETE", f"/kbs/{done}", 202)
        await drain(harness.knowledge)
        dead = [(await harness.upload(kb, PAPER, f"{n}.md")).json()["id"] for n in range(3)]
        await kill_event(harness)
        listed = await harness.json("GET", "/admin/outbox?state=dead&limit=2", role=ADMINISTRATOR)
        assert [each["aggregate_id"] for each in listed["events"]] == dead[:0:-1]
        event = listed["events"][0]
        assert (event["event_type"], event["attempts"], event["payload"]) == (
            "document.process", 5, {"document_id": dead[2]},
        )  # fmt: skip
        rest = {"state": "dead", "after": listed["next"]}
        more = await harness.json("GET", "/admin/outbox", role=ADMINISTRATOR, params=rest)
        assert len(more["events"]) == 1
        of_one = await harness.json("GET", f"/admin/outbox?aggregate_id={done}", role=ADMINISTRATOR)
        assert [each["state"] for each in of_one["events"]] == ["processed"]
        again = await harness.json("POST", f"/admin/outbox/{event['id']}/requeue", role=ADMINISTRATOR)
        assert again == {"requeued": 1}
        busy = await harness.ask("POST", f"/admin/outbox/{event['id']}/requeue", role=ADMINISTRATOR)
        assert (busy.status_code, busy.json()["code"]) == (409, "not_dead")
        assert await harness.json("POST", "/admin/outbox/requeue", role=ADMINISTRATOR) == {"requeued": 2}
        assert (await stats(harness))["failed_events"] == 0


async def test_users_are_managed(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path) as harness:
        given = {"email": "Ann@example.org", "password": PASSWORD, "role": "editor"}
        made = await harness.json("POST", "/admin/users", 201, role=ADMINISTRATOR, json=given)
        assert (made["email"], made["role"]) == ("ann@example.org", "editor")
        taken = await harness.ask("POST", "/admin/users", role=ADMINISTRATOR, json=given)
        assert (taken.status_code, taken.json()["code"]) == (409, "email_taken")
        path = f"/admin/users/{made['id']}"
        changed = await harness.json("PATCH", path, role=ADMINISTRATOR, json={"role": "administrator"})
        assert changed["is_superuser"]
        login = {"email": given["email"], "password": PASSWORD}
        await harness.json("POST", "/login", role=None, json=login)
        await harness.json("PUT", f"{path}/password", 204, role=ADMINISTRATOR, json={"password": "another horse"})
        await harness.json("POST", "/login", 401, role=None, json=login)
        closed = await harness.json("PATCH", path, role=ADMINISTRATOR, json={"is_active": False})
        assert closed["is_active"] is False
        listed = await harness.json("GET", "/admin/users?limit=1", role=ADMINISTRATOR)
        assert listed["next"]
        assert [set(each) for each in listed["users"]] == [set(made)]
        await harness.json("DELETE", path, 204, role=ADMINISTRATOR)
        await harness.json("GET", path, 404, role=ADMINISTRATOR)


async def test_the_stores_are_compared_and_orphans_removed(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, grace_seconds=0.0) as harness:
        kb = await harness.kb()
        document = (await harness.upload(kb, PAPER)).json()["id"]
        clean = await harness.json("POST", "/admin/consistency/checks", role=ADMINISTRATOR, json={})
        assert (clean["clean"], clean["executed"], clean["findings"]) == (True, False, 0)
        assert (await harness.json("GET", "/admin/consistency", role=ADMINISTRATOR))["runs"] == []
        await harness.upload(kb, PAPER)
        await sql(harness.knowledge, "DELETE FROM documents")
        found = await harness.json("POST", "/admin/consistency/checks", role=ADMINISTRATOR, json={"execute": True})
        assert not found["clean"]
        assert document in str(found["listed"])
        [run] = (await harness.json("GET", "/admin/consistency", role=ADMINISTRATOR))["runs"]
        assert run["findings"] == found["findings"] == sum(run["kinds"].values())
        first = await harness.json("GET", "/admin/consistency/findings?limit=1", role=ADMINISTRATOR)
        rest = {"after": first["next"]}
        more = await harness.json("GET", "/admin/consistency/findings", role=ADMINISTRATOR, params=rest)
        assert len(first["findings"] + more["findings"]) == found["findings"]
        preview = await harness.json("GET", "/admin/consistency/orphans", role=ADMINISTRATOR)
        assert (preview["found"], preview["removed"]) == (found["findings"], 0)
        removed = await harness.json("POST", "/admin/consistency/orphans/remove", role=ADMINISTRATOR, json={"cap": 10})
        assert removed["removed"] == preview["found"]
        after = await harness.json("POST", "/admin/consistency/checks", role=ADMINISTRATOR, json={})
        assert after["clean"]


async def test_one_comparison_at_a_time(sqlite_url: str, tmp_path: Path) -> None:
    async with served(sqlite_url, tmp_path) as harness:
        lock: asyncio.Lock = harness.app.state.comparing
        async with lock:
            for verb, path in (("POST", "checks"), ("GET", "orphans"), ("POST", "orphans/remove")):
                answer = await harness.ask(verb, f"/admin/consistency/{path}", role=ADMINISTRATOR, json={})
                assert (answer.status_code, answer.json()["code"]) == (409, "busy")
        assert (await harness.ask("GET", "/admin/consistency/orphans", role=ADMINISTRATOR)).status_code == 200
        wrong = await harness.ask("GET", "/admin/consistency/findings?kind=x", role=ADMINISTRATOR)
        assert wrong.status_code == 422
