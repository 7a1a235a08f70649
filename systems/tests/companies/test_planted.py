"""Names, the salt and the token are planted: none reaches a log, a message of a command, or a page that it is not
shown on."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from demos.companies.eqc_server import EqcServer
from demos.companies.faulty_server import FaultPlan, HttpFault
from systems.tests.companies.command_line import CommandLine, called
from systems.tests.companies.harness import SALT
from systems.tests.companies.providers.conformance import PLANTED_NAME, PLANTED_TOKEN, REGISTRY
from systems.tests.companies.web.served import served

PLANTED = (PLANTED_NAME, PLANTED_NAME.lower(), PLANTED_TOKEN, SALT)


def nothing_planted(text: str, *, but: str = "") -> None:
    found = [each for each in PLANTED if each in text and each.lower() != but.lower()]
    assert found == [], text[:3000]


@pytest.fixture
def eqc() -> Iterator[EqcServer]:
    with EqcServer(REGISTRY, FaultPlan(next=[HttpFault.BROKEN]), token=PLANTED_TOKEN) as server:
        yield server


def test_commands_log_and_say_none_of_them(
    database_url: str,
    eqc: EqcServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"WDH_EQC_BASE_URL": eqc.url, "WDH_EQC_TOKEN": PLANTED_TOKEN, "ROWMILL_LOG_LEVEL": "debug"}
    line: CommandLine = called(database_url, tmp_path, monkeypatch, capfd, **given)
    caplog.set_level(logging.DEBUG)
    line.write("in.csv", f"name\n{PLANTED_NAME} Ltd\n{PLANTED_NAME} Holding\n")
    line.write("m.csv", f"match_type,alias,company_id\nwrong,{PLANTED_NAME},1\ncompany_name,{PLANTED_NAME},1,2\n")
    said = []

    def run(*words: str, code: int = 0) -> str:
        out = line.run(*words, code=code)
        said.append(line.said)
        return out

    run("resolve", "in.csv", "-c", "name", "-o", "out.csv")
    said.append(run("resolve", "in.csv", "-c", "nom", code=2))
    said.append(run("mappings", "import", "m.csv", "--json", code=5))
    said.append(run("process", "--execute", "--json"))
    said.append(run("process", "--log-format", "json"))
    said.append(run("stats"))
    said.append(run("requeue", "--failed"))
    review = line.review(f"{PLANTED_NAME} Unclear")
    said.append(run("review", "choose", str(review), "C1"))
    said.append(run("review", "choose", str(review), "C1", code=1))
    # These break while they have a name in their hands.
    review = line.review(f"{PLANTED_NAME} Last")
    line.sql("DROP TABLE " + line.work(lambda _, companies: companies.tables.mappings.fullname))
    said.append(run("review", "choose", str(review), "C1", code=4))
    line.write("new.csv", f"name\n{PLANTED_NAME} New\n")
    run("resolve", "new.csv", "-c", "name", "-o", "out.csv")
    assert eqc.counts.wrong_tokens == 0
    nothing_planted("\n".join(said))
    nothing_planted("\n".join(f"{each.getMessage()} {vars(each)}" for each in caplog.records))
    nothing_planted(caplog.text)
    assert caplog.records


async def test_pages_log_none_of_them_and_show_no_secret(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    logging.getLogger("aiosqlite").setLevel(logging.INFO)  # of the driver: it tells every statement, if it is asked to
    async with served(
        database_url, eqc_token=PLANTED_TOKEN, eqc_base_url="https://eqc.example", temp_id_salt_previous="planted-old"
    ) as web:
        await web.post("/resolve", {"rows": [{"name": f"{PLANTED_NAME} Ltd"}]})
        await web.put(f"{PLANTED_NAME} Failed", "failed", last_error="refused")
        first, second = await web.review(f"{PLANTED_NAME} One"), await web.review(f"{PLANTED_NAME} Two")
        shown = [await web.page(path) for path in ("/", "/requests", "/review", "/conflicts", "/docs")]
        shown += [str(await web.get(path)) for path in ("/stats", "/enrichment-requests", "/reviews", "/openapi.json")]
        shown.append(await web.send(f"/review/{first}", company_id="C1"))
        shown.append(await web.send(f"/review/{first}", 409, company_id="C1"))
        shown.append(str(await web.post(f"/reviews/{second}", {"company_id": "C1"})))
        await web.send("/requests/requeue-failed")
        await web.client.get("/requests", headers={"accept": "text/html"})
        # And one that breaks while it has names in its hands.
        last = await web.review(f"{PLANTED_NAME} Last")
        mappings = web.companies.tables.mappings.fullname
        await web.mill.run(lambda connection: connection.exec_driver_sql(f"DROP TABLE {mappings}").close())
        await web.post("/resolve", {"rows": [{"name": f"{PLANTED_NAME} New"}]})
        broken = await web.client.post(f"/reviews/{last}", json={"company_id": "C1"})
        assert broken.status_code >= 500
        nothing_planted(broken.text)
        for text in shown:
            for secret in (PLANTED_TOKEN, SALT, "planted-old"):
                assert secret not in text
    ours = [each for each in caplog.records if not each.name.startswith(("httpx", "httpcore"))]  # of the test's client
    nothing_planted("\n".join(f"{each.getMessage()} {each.exc_text or ''}" for each in ours))
