"""Keys of objects: `{organization}/{project}/{sha256}`, and nothing else.

The same bytes in the same project are the same object, so that storing them again is harmless, and an object never
changes. A storage takes no other key: none leads out of it, and listings of all stores can be put into one order.
"""

import re
from urllib.parse import quote

from rowmill.systems.intake.errors import ForbiddenObject

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


def parts_of(key: str) -> tuple[str, str, str]:
    """Organisation, project and sha256 of a key. Raises ForbiddenObject for what is none."""
    if (found := SHAPE.fullmatch(key)) is None:
        raise ForbiddenObject("that is not a key of this storage")
    return found[1], found[2], found[3]
