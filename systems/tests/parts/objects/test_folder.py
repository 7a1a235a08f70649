"""A folder, and all that may stand or happen in it."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rowmill_systems.parts.objects import key_of
from rowmill_systems.parts.objects.errors import CorruptObject, ForbiddenObject, MissingObject, StorageFailed
from rowmill_systems.parts.objects.folder import INCOMING, FolderStorage
from systems.tests.parts.objects.bytes_of import NOWHERE, keys_in, put
from tests.support.postgres import REPOSITORY

NOBODY = 65534


async def test_only_the_owner_can_read_what_is_stored(folder: FolderStorage) -> None:
    stored = await put(folder, b"abc")
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder.root, *folder.root.rglob("*")]}
    assert modes.pop(folder.root / stored.key) == 0o600
    assert set(modes.values()) == {0o700}


async def test_a_link_leads_nowhere(folder: FolderStorage, tmp_path: Path) -> None:
    stored = await put(folder, b"abc", ("acme", "crm"))
    outside = tmp_path / "outside"
    (folder.root / "acme" / "crm").rename(outside)
    (folder.root / "acme" / "crm").symlink_to(outside)
    (folder.root / "beta").symlink_to(folder.root / "acme")
    (folder.root / "acme" / "erp").mkdir()
    linked = key_of("acme", "erp", stored.sha256)
    (folder.root / linked).symlink_to(outside / stored.sha256)
    for key in (stored.key, key_of("beta", "crm", stored.sha256), linked):
        with pytest.raises(ForbiddenObject):
            await folder.get(key, most=10)
        with pytest.raises(ForbiddenObject):
            await folder.open(key)
    with pytest.raises(ForbiddenObject):
        await put(folder, b"def", ("acme", "crm"))
    with pytest.raises(ForbiddenObject):
        await folder.delete(stored.key)
    assert not await folder.exists(linked)
    assert await keys_in(folder) == []
    assert [path.name for path in outside.iterdir()] == [stored.sha256]


async def test_what_is_no_file_is_not_read(folder: FolderStorage) -> None:
    await put(folder, b"abc")
    pipe, directory = key_of("acme", "crm", "1" * 64), key_of("acme", "crm", "2" * 64)
    os.mkfifo(folder.root / pipe)
    (folder.root / directory).mkdir()
    for key in (pipe, directory):
        with pytest.raises(ForbiddenObject):
            await folder.get(key, most=10)
    assert len(await keys_in(folder)) == 1


async def test_other_bytes_than_were_stored_are_noticed(folder: FolderStorage) -> None:
    stored = await put(folder, b"abc")
    (folder.root / stored.key).write_bytes(b"abd")
    with pytest.raises(CorruptObject):
        await folder.get(stored.key, most=10)
    await put(folder, b"abc")
    assert await folder.get(stored.key, most=10) == b"abc", "the same upload mends it"


async def test_a_disk_that_is_not_mounted_is_not_a_missing_object(folder: FolderStorage) -> None:
    stored = await put(folder, b"abc")
    away = folder.root.rename(folder.root.with_name("away"))
    for uses in range(2):
        with pytest.raises(StorageFailed):
            await folder.get(stored.key, most=10)
        with pytest.raises(StorageFailed):
            await folder.exists(stored.key)
        with pytest.raises(StorageFailed):
            await keys_in(folder)
        if uses == 0:
            folder.root.mkdir()
    folder.root.rmdir()
    away.rename(folder.root)
    assert await folder.get(stored.key, most=10) == b"abc"
    with pytest.raises(MissingObject):
        await folder.get(NOWHERE, most=10)


async def test_a_file_that_we_may_not_read_is_forbidden(tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("locked")
    as_root = os.geteuid() == 0
    if as_root:  # whom nothing is forbidden: be somebody else for a moment
        for path in (base, *base.parents[:-2]):
            path.chmod(path.stat().st_mode | 0o111)
        os.chown(base, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        folder = FolderStorage(base / "files")
        stored = await put(folder, b"abc")
        (folder.root / "acme").chmod(0)
        with pytest.raises(ForbiddenObject) as raised:
            await folder.get(stored.key, most=10)
        assert isinstance(raised.value.__cause__, PermissionError)
        with pytest.raises(ForbiddenObject):
            await put(folder, b"def")
        (folder.root / "acme").chmod(0o700)
        assert await folder.get(stored.key, most=10) == b"abc"
        assert await folder.sweep(older=-60.0) == 0
        await folder.close()
    finally:
        if as_root:
            os.seteuid(0)


async def test_a_full_disk_is_a_matter_of_time_and_leaves_no_part() -> None:
    """On a real file system of a megabyte, in a namespace of its own, where that is allowed."""
    command = ["unshare", "--user", "--map-root-user", "--mount", sys.executable]
    command += ["-m", "systems.tests.parts.objects.full_disk"]
    done = await asyncio.to_thread(subprocess.run, command, cwd=REPOSITORY, capture_output=True, text=True)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("no namespaces here")
    assert json.loads(done.stdout) == {
        "error": "StorageFailed", "code": "storage", "cause": "OSError", "full": True, "keys": 1, "left": 0, "after": 2,
    }, done.stderr  # fmt: skip


async def test_what_a_killed_process_left_is_swept_after_a_day(folder: FolderStorage) -> None:
    script = (
        "import asyncio, os, signal, sys\n"
        "from rowmill_systems.parts.objects import open_storage\n"
        "async def main():\n"
        "    async with open_storage(sys.argv[1]).receive() as incoming:\n"
        "        await incoming.write(b'abc')\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script, str(folder.root)])
    assert done.returncode == -signal.SIGKILL
    [left] = (folder.root / INCOMING).iterdir()
    assert await keys_in(folder) == []
    assert await folder.sweep() == 0, "it may still be on its way"
    os.utime(left, (0, left.stat().st_mtime - 86_500))
    async with folder.receive() as incoming:
        await incoming.write(b"def")
        assert await folder.sweep() == 1
        await incoming.keep("acme", "crm")
    assert len(await keys_in(folder)) == 1
