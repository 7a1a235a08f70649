"""F12: upload, status, progress."""

import asyncio
import hashlib
import io
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from PIL import Image

from rowmill_systems.intake.errors import CorruptFile
from rowmill_systems.intake.models import ProjectFile
from rowmill_systems.intake.seam import PROGRESS
from rowmill_systems.parts.documents.reader import Reader
from systems.tests.intake.harness import FakeAnalyzer
from systems.tests.intake.served import FILES, served


async def test_a_file_is_uploaded_read_and_shown_with_its_suggestions(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        answer = await harness.upload("total: 12\ncolour: red", "in/voice.txt", doc_type="invoice")
        assert answer.status_code == 201
        file = answer.json()
        assert (file["filename"], file["processing_status"], file["doc_type"]) == ("voice.txt", "queued", "invoice")
        assert file["file_hash"] == hashlib.sha256(b"total: 12\ncolour: red").hexdigest()
        await harness.drain()
        shown = await harness.get(answer.headers["location"])
        assert shown["processing_status"] == "completed"
        [suggestion] = shown["suggestions"]
        assert (suggestion["field_key"], suggestion["value"], suggestion["state"]) == ("total", "12", "pending")
        assert (suggestion["page"], suggestion["quote"]) == (1, "total: 12")
        assert shown["unmapped"] == [{"label": "colour", "value": "red", "page": 1, "quote": "colour: red"}]
        [page] = await harness.get(f"{answer.headers['location']}/pages")
        assert page["text"] == "total: 12\ncolour: red"


async def test_the_list_has_states_counts_and_pages(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        for number in range(3):
            await harness.upload(f"total: {number}", f"{number}.txt")
        await harness.drain()
        await harness.upload("total: 9", "9.txt")
        first = await harness.get(FILES, limit=3)
        assert [file["filename"] for file in first["files"]] == ["9.txt", "2.txt", "1.txt"]
        assert first["counts"] == {"queued": 1, "processing": 0, "completed": 3, "failed": 0}
        assert [file["pending"] for file in first["files"]] == [0, 1, 1]
        second = await harness.get(FILES, limit=3, before=first["next"])
        assert ([file["filename"] for file in second["files"]], second["next"]) == (["0.txt"], None)
        done = await harness.get(FILES, status="completed")
        assert len(done["files"]) == 3


async def test_progress_is_visible_while_a_file_is_read(database_url: str, tmp_path: Path) -> None:
    told = asyncio.Event()

    class Slow(FakeAnalyzer):
        async def __call__(self, **given: object) -> object:  # type: ignore[override]
            PROGRESS.get()(3, 10)
            await told.wait()
            return await super().__call__(**given)  # type: ignore[arg-type]

    async with served(database_url, tmp_path, Slow()) as harness:
        location = (await harness.upload("total: 1")).headers["location"]
        working = asyncio.create_task(harness.drain())
        while (shown := await harness.get(location))["pages_read"] != 3:
            await asyncio.sleep(0.01)
        assert (shown["processing_status"], shown["page_count"]) == ("processing", 10)
        told.set()
        await working
        assert (await harness.get(location))["pages_read"] == 1


async def test_what_is_too_large_is_refused_while_it_comes_in(database_url: str, tmp_path: Path) -> None:
    """Whether its length is said beforehand or not; nothing of it is kept."""
    async with served(database_url, tmp_path, FakeAnalyzer(), max_file_bytes=1000) as harness:
        assert (await harness.upload(b"x" * 1000)).status_code == 201
        assert (await harness.upload(b"x" * 1001)).json()["code"] == "too_large"
        big = await harness.upload(b"x" * 200_000)
        assert (big.status_code, big.json()["code"]) == (413, "too_large")

        async def of_no_said_length() -> AsyncIterator[bytes]:
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            for _ in range(100):
                yield b"x" * 10_000

        kind = {"content-type": "multipart/form-data; boundary=b"}
        answer = await harness.client.post(FILES, content=of_no_said_length(), headers=kind)
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert (await harness.get(FILES))["counts"]["queued"] == 1
        assert len([path for path in (tmp_path / "files").rglob("*") if path.is_file()]) == 1


async def test_empty_files_and_wrong_requests_are_refused_with_a_reason(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        empty = await harness.upload("")
        assert (empty.status_code, empty.json()["code"]) == (422, "empty")
        for path, code in (
            (f"{FILES}/99", 404),
            (f"{FILES}/0", 422),
            (f"{FILES}/{2**70}", 422),
            (f"/organizations/{2**40}/projects/1/files", 422),
            ("/organizations/x/projects/1/files", 422),
        ):
            answer = await harness.client.get(path)
            assert (answer.status_code, set(answer.json())) == (code, {"code", "message"}), path
        no_file = await harness.client.post(FILES, data={"doc_type": "invoice"})
        assert no_file.status_code == 422
        hello = await harness.client.get(f"{FILES}?status=lost")
        assert hello.status_code == 422


async def test_a_file_of_another_project_is_not_there(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        number = (await harness.upload("total: 1")).json()["id"]
        for place in ("/organizations/1/projects/2", "/organizations/2/projects/1"):
            for path in ("", "/content", "/pages", "/pages/1.png"):
                assert (await harness.client.get(f"{place}/files/{number}{path}")).status_code == 404
            assert (await harness.client.post(f"{place}/files/{number}/requeue")).status_code == 404


async def test_the_bytes_come_back_as_they_went_in_and_never_as_a_page(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        content = b"<script>alert(1)</script>" * 1000
        answer = await harness.client.post(FILES, files={"file": ("ä\r\n<b>.html", content, "text/html")})
        got = await harness.client.get(f"{answer.headers['location']}/content")
        assert got.content == content
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"].startswith("attachment;")
        assert got.headers["x-content-type-options"] == "nosniff"


async def test_requeue_reads_again_unless_it_is_being_read(database_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    async with served(database_url, tmp_path, analyzer) as harness:
        location = (await harness.upload("total: 1")).headers["location"]
        await harness.drain()
        again = await harness.client.post(f"{location}/requeue")
        assert (again.status_code, again.json()["processing_status"]) == (202, "queued")
        await harness.drain()
        assert len(analyzer.read) == 2, "anew"
        await harness.client.post(f"{location}/requeue", json={"fresh": False})
        await harness.drain()
        assert len(analyzer.read) == 2, "from the analysis that there is"
        analyzer.go.clear()
        analyzer.reading.clear()
        await harness.client.post(f"{location}/requeue")
        working = asyncio.create_task(harness.drain())
        await analyzer.reading.wait()
        busy = await harness.client.post(f"{location}/requeue")
        assert (busy.status_code, busy.json()["code"]) == (409, "processing")
        analyzer.go.set()
        await working


async def test_files_that_share_an_analysis_are_shown_while_one_of_them_is_read_anew(
    database_url: str, tmp_path: Path
) -> None:
    """And after that failed, too."""
    analyzer = FakeAnalyzer()
    async with served(database_url, tmp_path, analyzer) as harness:
        first = (await harness.upload("total: 1")).headers["location"]
        await harness.drain()
        second = (await harness.upload("total: 1")).headers["location"]
        await harness.drain()
        assert (await harness.client.post(f"{second}/requeue")).status_code == 202
        analyzer.failure = CorruptFile("broken")
        for status in ("queued", "failed"):
            assert (await harness.get(second))["processing_status"] == status
            for location, number in ((first, 1), (second, 2)):
                page = await harness.client.get(f"/review/1/1/files/{number}")
                assert (page.status_code, "total: 1" in page.text) == (200, True)
                assert [one["text"] for one in await harness.get(f"{location}/pages")] == ["total: 1"]
            await harness.drain()


async def test_a_requeue_that_a_worker_takes_up_at_once_is_no_conflict(database_url: str, tmp_path: Path) -> None:
    analyzer = FakeAnalyzer()
    async with served(database_url, tmp_path, analyzer) as harness:
        location = (await harness.upload("total: 1")).headers["location"]
        await harness.drain()
        analyzer.go.clear()
        analyzer.reading.clear()
        requeue, tasks = harness.intake.files.requeue, []

        async def requeue_and_claim(*keys: int) -> int:
            done = await requeue(*keys)
            tasks.append(asyncio.create_task(harness.drain()))
            await analyzer.reading.wait()
            return done

        vars(harness.intake.files)["requeue"] = requeue_and_claim
        answer = await harness.client.post(f"{location}/requeue")
        assert (answer.status_code, answer.json()["processing_status"]) == (202, "processing")
        analyzer.go.set()
        await tasks[0]


async def test_pages_of_other_sites_can_t_change_anything(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        for headers in ({"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
            answer = await harness.client.post(FILES, files={"file": ("a", b"total: 1")}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
        rebound = await harness.client.get("/", headers={"host": "evil.example"})
        assert rebound.status_code == 400
        own = {"origin": str(harness.client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
        assert (await harness.client.post(FILES, files={"file": ("a", b"total: 1")}, headers=own)).status_code == 201


async def test_what_an_uploader_says_has_nothing_that_a_database_refuses(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        answer = await harness.client.post(
            FILES,
            content=(
                b'--B\r\nContent-Disposition: form-data; name="doc_type"\r\n\r\nin\x00voice\r\n'
                b'--B\r\nContent-Disposition: form-data; name="file"; filename="a\x00.txt"\r\n'
                b"Content-Type: text/\x00plain\r\n\r\ntotal: 1\r\n--B--\r\n"
            ),
            headers={"content-type": "multipart/form-data; boundary=B"},
        )
        assert answer.status_code == 201, answer.text
        file = answer.json()
        assert (file["filename"], file["doc_type"], file["media_type"]) == ("a.txt", "invoice", "text/plain")


async def test_every_refusal_has_a_code_and_words(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        wrong = {"content-type": "multipart/form-data"}
        for answer, status in (
            (await harness.client.get(FILES, params={"before": 2**63}), 422),
            (await harness.client.get("/nowhere"), 404),
            (await harness.client.put(FILES), 405),
            (await harness.client.post(FILES, content=b"--", headers=wrong), 400),
        ):
            assert answer.status_code == status
            assert answer.json().keys() == {"code", "message"}


async def test_times_say_their_zone(database_url: str, tmp_path: Path) -> None:
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        location = (await harness.upload("total: 1")).headers["location"]
        await harness.drain()
        shown = await harness.get(location)
        for name in ("created_at", "processed_at"):
            assert datetime.fromisoformat(shown[name]).utcoffset() == timedelta(0)


async def test_who_looks_at_a_page_does_not_wait_for_a_file_that_is_read(database_url: str, tmp_path: Path) -> None:
    """With a worker beside the server, whose only reader may be busy for minutes."""
    image = io.BytesIO()
    Image.new("RGB", (40, 20), "white").save(image, "PNG")
    async with served(database_url, tmp_path, FakeAnalyzer()) as harness:
        location = (await harness.upload(image.getvalue(), "a.png")).headers["location"]
        read = sa.update(ProjectFile).values(kind="image", page_count=1)
        await harness.mill.run(lambda connection: connection.execute(read).close())
        scan = asyncio.Event()

        async def read_slowly(reader: Reader) -> None:
            async with reader._lock:
                await scan.wait()

        busy = [asyncio.create_task(read_slowly(reader)) for reader in harness.intake.readers._all]
        async with asyncio.timeout(20):
            picture = await harness.client.get(f"{location}/pages/1.png")
        assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
        scan.set()
        await asyncio.gather(*busy)
