"""Keys of objects: `{organization}/{project}/{sha256}`.

The same bytes in the same project are the same object, so that storing them again is harmless, and an object never
changes. Objects that somebody else put there, under other keys, can be read; no key leads out of the storage.
"""

import re
from urllib.parse import quote

from rowmill_systems.parts.objects.errors import ForbiddenObject

NAME = r"[A-Za-z0-9_~=][A-Za-z0-9_~=.-]*"
SHAPE = re.compile(rf"({NAME})/({NAME})/([0-9a-f]{{64}})")
LONGEST_NAME = 200
"""File systems take 255 bytes."""


def key_of(organization_id: object, project_id: object, sha256: str) -> str:
    """The key of these bytes in this project. Two projects never share one, however they are called."""
    key = f"{name_of(organization_id)}/{name_of(project_id)}/{sha256}"
    if not SHAPE.fullmatch(key):
        raise ValueError("the sha256 of an object is 64 hexadecimal digits in lower case")
    return key


def name_of(given: object) -> str:
    """An id as the name of a folder. What is not plain is escaped as in URLs, with `=` for `%`: some servers decode
    keys once too often."""
    name = quote(str(given), safe="").replace("%", "=")
    name = f"=2E{name[1:]}" if name.startswith(".") else f"=2D{name[1:]}" if name.startswith("-") else name
    if not 0 < len(name) <= LONGEST_NAME:
        raise ValueError(f"an id in a key has between 1 and {LONGEST_NAME} characters, after escaping")
    return name


def parts_of(key: str) -> list[str]:
    """The names of the folders that lead to an object, and its own. Raises ForbiddenObject for what leads elsewhere."""
    names = key.split("/")
    if not all(is_plain(name) for name in names):
        raise ForbiddenObject("that is not a key of this storage")
    return names


def is_plain(name: str) -> bool:
    """Names with a dot in front are our own, or lead upwards."""
    return 0 < len(name) <= LONGEST_NAME and name.isprintable() and name[0] != "." and "\\" not in name


def digest_of(key: str) -> str | None:
    """The sha256 of the bytes under a key, if it tells."""
    found = SHAPE.fullmatch(key)
    return found[3] if found else None
