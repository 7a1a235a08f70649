"""A program, for a mount namespace of its own: fill a disk of one megabyte, and say what the storage made of it."""

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path

from rowmill_systems.parts.objects.errors import StorageFailed
from rowmill_systems.parts.objects.folder import INCOMING, FolderStorage
from systems.tests.parts.objects.bytes_of import keys_in, pattern, put


async def main(folder: Path) -> dict[str, object]:
    storage = FolderStorage(folder)
    first = await put(storage, pattern(300_000))
    try:
        await put(storage, pattern(2_000_000))
    except StorageFailed as error:
        found = {"error": type(error).__name__, "code": error.code, "cause": type(error.__cause__).__name__}
        full = "full" in str(error)
    keys = await keys_in(storage)
    left = len(list((folder / INCOMING).iterdir()))
    await storage.get(first.key, most=300_000)
    await put(storage, pattern(400_000, 1))
    await storage.close()
    return found | {"full": full, "keys": len(keys), "left": left, "after": len(files_in(folder))}


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", place], check=True)
        try:
            print(json.dumps(asyncio.run(main(Path(place)))))
        finally:
            subprocess.run(["umount", place], check=True)
