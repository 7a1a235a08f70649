"""K5, K6: what people see. The table of kinds, alerts, the history, and the report for scripts."""

import json
from pathlib import Path
from typing import Any

import pytest

import rowmill as rm
from rowmill_systems.knowledge.consistency import KINDS, Mending, check_on_schedule, history, open_findings
from rowmill_systems.knowledge.knowledge import Knowledge
from rowmill_systems.knowledge.names import collection_of
from systems.tests.knowledge.consistency.damage import Library, library_on, ready_document, strange_id
from systems.tests.knowledge.harness import settings_for


def test_every_kind_has_a_rule_and_is_mended_as_the_table_says(tmp_path: Path) -> None:
    declared = Knowledge(settings_for("sqlite:///none.db", tmp_path)).consistency.reconciliation.declared
    assert [rule.kind for rule in declared.rules] == [kind.name for kind in KINDS]
    assert isinstance(declared.correct, dict)
    assert set(declared.correct) == {kind.name for kind in KINDS if kind.mending is Mending.EVENT}


async def test_more_than_five_findings_raise_an_alert_and_each_is_logged(library: Library) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []
    library.knowledge.mill.observe(lambda name, fields: seen.append((name, dict(fields))))
    strangers = [strange_id() for _ in range(5)]
    for document_id in strangers:
        await library.put_points(document_id, 1, [0])
    await library.check()
    assert [name for name, _ in seen if name == "alert"] == []

    await library.put_points(strange_id(), 1, [0])
    await library.check()
    [alert] = [fields for name, fields in seen if name == "alert"]
    assert (alert["alert"], alert["severity"], alert["drift"]) == ("RECONCILIATION_DRIFT", "ERROR", 6)
    logged = [fields for name, fields in seen if name == "finding"]
    assert {each["key"] for each in logged} >= {f"document:{each}" for each in strangers}
    assert all(each["kind"] == "vectors_without_document" and each["times"]["vectors"] for each in logged)
    assert sum(each["new"] for each in logged) == 6, "those of the first comparison are known to the second"


async def test_the_history_shows_drift_and_open_findings_are_listed(library: Library) -> None:
    await library.knowledge.vectors.delete(collection_of(library.kb_id), library.one)
    await library.check(execute=False)
    assert await history(library.knowledge) == []
    await library.check()
    await library.assert_mended()

    runs = await history(library.knowledge)
    assert [dict(run.kinds) for run in runs] == [{}, {"ready_without_vectors": 1}]
    assert [(run.findings, run.corrected, run.closed) for run in runs] == [(0, 0, 1), (1, 1, 0)]
    await library.put_points(strange_id(), 1, [0])
    await library.check()
    [finding] = await open_findings(library.knowledge, "vectors_without_document")
    assert finding.corrected_at is None
    assert await open_findings(library.knowledge, "wrong_model") == []


async def test_a_report_can_be_read_by_scripts(library: Library) -> None:
    clean = await library.check(execute=False)
    assert (clean.exit_code, clean.as_dict()["clean"], clean.as_dict()["kinds"]) == (0, True, {})

    await library.knowledge.vectors.delete(collection_of(library.kb_id), library.one)
    report = await library.check()
    given = json.loads(json.dumps(report.as_dict(), default=str))
    assert report.exit_code == 5
    assert given["kinds"] == {"ready_without_vectors": {"count": 1, "mending": "event"}}
    assert (given["executed"], given["findings"], given["corrected"], given["clean"]) == (True, 1, 1, False)
    assert given["listed"][0]["key"] == f"document:{library.one}"
    assert "a.md" not in json.dumps(given), "no names"


async def test_corrections_are_capped_and_the_rest_follows(sqlite_url: str, tmp_path: Path) -> None:
    async with library_on(sqlite_url, tmp_path, reconcile_cap=2) as library:
        third = await ready_document(library.knowledge, library.kb_id)
        for document_id in (library.one, library.other, third):
            await library.knowledge.vectors.delete(collection_of(library.kb_id), document_id)
        last = await library.last_event()
        first = await library.check()
        assert (first.run.corrected, first.run.remaining) == (2, 1)
        assert (await library.check()).run.corrected == 1
        assert len(set(await library.added_since(last))) == 3


async def test_a_comparison_beside_another_one_does_nothing(library: Library) -> None:
    """A tick that comes twice, or while the one before it goes on."""

    async def busy(**_: object) -> None:
        raise rm.errors.ReconciliationBusy("one run at a time")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library.knowledge.consistency.reconciliation, "run", busy)
        assert await check_on_schedule(library.knowledge) is None
    assert (await check_on_schedule(library.knowledge)) is not None


async def test_a_comparison_without_the_model_says_nothing_of_models(sqlite_url: str, tmp_path: Path) -> None:
    async with library_on(sqlite_url, tmp_path) as library:
        await library.change_kb(model_since=None, embedding_model="older")

        async def not_installed() -> None:
            raise LookupError("not installed")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(library.knowledge, "open_embedder", not_installed)
            assert "kb_other_model" not in await library.found()
        assert "kb_other_model" in await library.found()
