"""The secret salt of temporary ids: where it comes from, and the check that it is still the same.

A different salt gives every name another temporary id, and rows that carry the old one would never be found again. So
a fingerprint of the salt is kept in the database, and another salt is refused until `rotation` has rewritten the ids.
The salt itself is in no table, no log and no message.
"""

import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

import rowmill as rm
from rowmill_systems.companies.models import CompaniesTables
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_ids import temp_id
from rowmill_systems.parts.database import upsert_into

FINGERPRINT = "salt_fingerprint"
ROTATION = "salt_rotation"
"""Keys in `company_meta`."""
SALT_BYTES = 32
SUFFIX = ".salt"
HOW_TO_MAKE = "python -c 'import secrets; print(secrets.token_hex(32))'"
IN_MEMORY = ("", ":memory:")


class SaltMissing(rm.errors.BadRequest):
    """There is no salt, and none may be made up. The message says how to set one."""


class SaltMismatch(rm.errors.BadRequest):
    """The salt is not the one that the ids in this database were made with."""


@dataclass(frozen=True, slots=True)
class Salts:
    """The salt of new ids, and that of before, while ids are rewritten."""

    current: str = field(repr=False)
    previous: str = field(default="", repr=False)

    def temp_id(self, normalized_name: str) -> str:
        """Return the temporary id of a name."""
        return temp_id(normalized_name, self.current)

    def temp_ids(self, normalized_name: str, stored: str | None = None) -> set[str]:
        """Return every temporary id that rows may carry for a name: the current one, the one before a rotation, and
        the one that its request has."""
        found = {self.temp_id(normalized_name)}
        if self.previous:
            found.add(temp_id(normalized_name, self.previous))
        if stored:
            found.add(stored)
        return found


def find_salts(settings: CompaniesSettings, url: sa.URL) -> Salts:
    """Return the salts for a database: those of the settings, or on SQLite the one that is kept beside the file.

    Raises SaltMissing on PostgreSQL without a setting: every machine has to use the same one.
    """
    current = settings.temp_id_salt.get_secret_value().strip()
    previous = settings.temp_id_salt_previous.get_secret_value().strip()
    if not current:
        path = url.database or ""
        if url.get_backend_name() != "sqlite" or path in IN_MEMORY or path.startswith("file:"):
            raise SaltMissing(
                "temporary ids need a secret salt, the same on every machine. Make one, keep it with your secrets, and "
                f"set WDH_TEMP_ID_SALT to it: {HOW_TO_MAKE}"
            )
        current = salt_beside(Path(path))
    return Salts(current, previous)


def salt_beside(database: Path) -> str:
    """Return the salt in the file beside a SQLite database. Make it first if there is none; of two processes that do so
    at once, both get the same."""
    file = database.with_name(database.name + SUFFIX)
    try:
        return _read(file)
    except FileNotFoundError:
        pass
    mine = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    number = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(number, "w", encoding="ascii") as opened:
            opened.write(secrets.token_hex(SALT_BYTES) + "\n")
            opened.flush()
            os.fsync(opened.fileno())
        with suppress(FileExistsError):
            os.link(mine, file)  # unlike a rename, it fails if somebody else was first
    finally:
        mine.unlink()
    return _read(file)


def _read(file: Path) -> str:
    found = file.read_text("utf-8").strip()
    if not found:
        raise SaltMissing(
            f"the file {file.name} beside the database is empty, and had the salt of its temporary ids. Restore it "
            "from a backup, or set WDH_TEMP_ID_SALT"
        )
    return found


def fingerprint(salt: str) -> str:
    """Return what tells this salt from others, and does not reveal it."""
    return hmac.new(salt.encode(), b"rowmill companies salt", hashlib.sha256).hexdigest()[:32]


# served by: the primary key of company_meta
def check_salts(connection: sa.Connection, tables: CompaniesTables, salts: Salts) -> None:
    """Raise SaltMismatch if the ids of this database were made with another salt. The first salt is noted.

    During a rotation the salt of before is accepted too, so that running pipelines may go on.
    """
    noted = upsert_into(connection, tables.meta).values(key=FINGERPRINT, value=fingerprint(salts.current))
    kept = read_meta(connection, tables, FINGERPRINT)
    if kept is None:
        connection.execute(noted.on_conflict_do_nothing())
        kept = read_meta(connection, tables, FINGERPRINT)
    allowed = {kept, (read_meta(connection, tables, ROTATION) or "").partition(" ")[0]}
    if fingerprint(salts.current) in allowed:
        return
    if salts.previous and fingerprint(salts.previous) == kept:
        return  # both are known: ids of before are recognised until the rotation has rewritten them
    raise SaltMismatch(
        "the temporary ids in this database were made with another salt. Set WDH_TEMP_ID_SALT to that one. To change "
        "the salt, set WDH_TEMP_ID_SALT to the new one and WDH_TEMP_ID_SALT_PREVIOUS to the old one, and rewrite the "
        "ids: rowmill systems companies rotate-salt --execute"
    )


def read_meta(connection: sa.Connection, tables: CompaniesTables, key: str) -> str | None:
    """Return a value of `company_meta`."""
    return connection.scalar(sa.select(tables.meta.c.value).where(tables.meta.c.key == key))


def write_meta(connection: sa.Connection, tables: CompaniesTables, key: str, value: str | None) -> None:
    """Set a value of `company_meta`; None removes it."""
    if value is None:
        connection.execute(sa.delete(tables.meta).where(tables.meta.c.key == key))
        return
    insert = upsert_into(connection, tables.meta).values(key=key, value=value)
    connection.execute(insert.on_conflict_do_update(index_elements=["key"], set_={"value": value}))
