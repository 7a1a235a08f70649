"""Neither names nor what services say of them is shown: not in logs, not in errors."""

import logging
import traceback
from collections.abc import Iterator

import httpx2
import pytest

import rowmill as rm
from demos.entities.plan import Fault
from demos.entities.server import Server
from rowmill_systems.parts.services import calling, sending
from rowmill_systems.parts.services.settings import ServiceSettings
from systems.tests.entities.services import PERSON, services_on

WORD = "Plantedname"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """With its causes, and with what they were raised in the course of."""
    if error is not None:
        yield error
        yield from chain(error.__cause__)
        yield from chain(error.__context__)


@pytest.mark.parametrize("fault", ["", *(fault for fault in Fault if fault is not Fault.DRIP)])
async def test_no_name_is_shown(
    server: Server, sqlite_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr("demos.entities.server.PAGE", f"<html>{WORD}</html>".encode())
    server.plan.next = {service: [fault] for service in ("wikidata", "dbpedia-data", "dbpedia-lookup")}
    shown: list[str] = []
    async with services_on(server, sqlite_url, call_seconds=1.0) as (services, _):
        with caplog.at_level(logging.DEBUG):
            for service, path, given in (
                ("wikidata", "", PERSON | {"search": WORD}),
                ("dbpedia-data", f"/{WORD}.json", {}),
                ("dbpedia-lookup", "", {"query": WORD}),
            ):
                try:
                    await services[service].get(path, given)
                except rm.errors.WorkError as error:
                    for each in chain(error):
                        shown += [str(each), repr(each), *map(repr, each.args)]
                    shown += traceback.format_exception(error)
        asked = [record for record in caplog.records if record.name == "httpx2"]
        assert fault or len(asked) == 3, "its log is there, and says which host"
        ours = [record for record in caplog.records if record.name.startswith(("rowmill", "httpx2"))]
        shown += [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
        shown += [f"{record.getMessage()} {record.args}" for record in ours]
    assert WORD not in "\n".join(shown)


def test_what_others_ask_is_logged_as_ever() -> None:
    address = httpx2.URL("https://example.org/path?q=1")
    record = logging.LogRecord("httpx2", logging.INFO, "", 0, "%s", (address,), None)
    assert sending.HostOnlyFilter().filter(record)
    assert record.getMessage() == "https://example.org/path?q=1"


@pytest.mark.parametrize("contact", ["two\nlines", "ümlaut@example.org"])
def test_a_contact_that_no_header_takes_is_refused(contact: str) -> None:
    with pytest.raises(rm.errors.DeclarationError, match="contact"):
        calling.user_agent(ServiceSettings("entities", contact))
