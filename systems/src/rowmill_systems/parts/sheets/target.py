"""Write a file that appears when it is complete."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from rowmill_systems.parts.sheets.errors import BadSheet

BOM = "\ufeff"


def check_target(target: Path, source: Path | None) -> None:
    """Check that the result can be written, before the work is done."""
    if source is not None and target.exists() and source.exists() and os.path.samefile(target, source):
        raise BadSheet("it can't be written to itself: the same command could not go on then. Name another --output")
    if target.is_dir() or not target.parent.is_dir():
        raise BadSheet(f"--output {target} is no place for a file")
    if not os.access(target if is_special(target) else target.parent, os.W_OK):
        raise BadSheet(f"--output {target} can't be written")


def is_special(target: Path) -> bool:
    """Tell whether it is a pipe or a device, which can't be renamed."""
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)


@contextmanager
def written(target: Path | None, *, mark: bool) -> Iterator[TextIO]:
    """Yield a text file to write; standard output without a target.

    `mark` writes a byte order mark, by which spreadsheets recognise UTF-8.
    """
    if target is None:
        sys.stdout.flush()
        with open(sys.stdout.fileno(), "w", encoding="utf-8", newline="", closefd=False) as out:
            yield out
        return
    if is_special(target):
        with target.open("w", encoding="utf-8", newline="") as out:
            yield out
        return
    target = target.resolve()
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    temporary = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as out:
            out.write(BOM if mark else "")
            yield out
            out.flush()
            os.fsync(out.fileno())
        temporary.chmod(_mode(target))
        temporary.replace(target)
    except OSError as error:
        raise BadSheet(f"--output {target} can't be written: {error.strerror}") from error
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new file."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
