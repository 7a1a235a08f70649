"""Keys of objects: `{owner}/{collection}/{sha256}`.

Owner and collection are ids of the application, such as a customer and a project of theirs. The same bytes in the same
collection are the same object: storing them again is harmless, and an object never changes.
Objects under other keys, which another program stored, can be read. No key leads out of the storage.
"""

import re
from urllib.parse import quote

from rowmill_systems.parts.objects.errors import ForbiddenObject

NAME = r"[A-Za-z0-9_~=][A-Za-z0-9_~=.-]*"
SHAPE = re.compile(rf"({NAME})/({NAME})/([0-9a-f]{{64}})")
LONGEST_NAME = 200
"""File systems allow 255 bytes."""


def key_of(owner: object, collection: object, sha256: str) -> str:
    """Return the key of these bytes in a collection of an owner. Two collections never share a key."""
    key = f"{name_of(owner)}/{name_of(collection)}/{sha256}"
    if not SHAPE.fullmatch(key):
        raise ValueError("the sha256 of an object is 64 hexadecimal digits in lower case")
    return key


def name_of(given: object) -> str:
    """Return an id as the name of a folder. Other characters are escaped as in URLs, with `=` for `%`, since some
    servers decode keys twice."""
    name = quote(str(given), safe="").replace("%", "=")
    name = f"=2E{name[1:]}" if name.startswith(".") else f"=2D{name[1:]}" if name.startswith("-") else name
    if not 0 < len(name) <= LONGEST_NAME:
        raise ValueError(f"an id in a key has between 1 and {LONGEST_NAME} characters, after escaping")
    return name


def parts_of(key: str) -> list[str]:
    """Split a key into the names of its folders and its own. Raises ForbiddenObject if it leads elsewhere."""
    names = key.split("/")
    if not all(is_plain(name) for name in names):
        raise ForbiddenObject("that is not a key of this storage")
    return names


def is_plain(name: str) -> bool:
    """Return whether a name may be part of a key. Names with a leading dot are reserved, or lead upwards."""
    return 0 < len(name) <= LONGEST_NAME and name.isprintable() and name[0] != "." and "\\" not in name


def digest_of(key: str) -> str | None:
    """Return the sha256 in a key; None if the key has none."""
    found = SHAPE.fullmatch(key)
    return found[3] if found else None
