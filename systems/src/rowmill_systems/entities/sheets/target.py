"""A file that is there when all of it is written, and not before."""

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from rowmill_systems.entities.sheets.errors import BadSheet

BOM = "\ufeff"


def check_target(target: Path, source: Path | None) -> None:
    """Before the work is done, whether its result can be written."""
    if source is not None and target.exists() and source.exists() and os.path.samefile(target, source):
        raise BadSheet("it can't be written to itself: the same command could not go on then. Name another --output")
    if target.is_dir() or not target.parent.is_dir():
        raise BadSheet(f"--output {target} is no place for a file")
    if not os.access(target if is_special(target) else target.parent, os.W_OK):
        raise BadSheet(f"--output {target} can't be written")


def is_special(target: Path) -> bool:
    """A pipe or a device: there is nothing to rename."""
    return target.exists() and not stat.S_ISREG(target.stat().st_mode)


@contextmanager
def written(target: Path | None, *, mark: bool) -> Iterator[TextIO]:
    """Text to write; to standard output without a target. `mark`: with a byte order mark, by which a spreadsheet knows
    UTF-8."""
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
    """That of the file whose place it takes, or that of any new one."""
    if target.exists():
        return stat.S_IMODE(target.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
