"""Temporary ids: the same for every spelling of a name, on every machine, in every version."""

import base64
import hashlib
import hmac

from rowmill_systems.parts.names.companies import normalize_company
from rowmill_systems.parts.values import storable

TEMP_ID_PREFIX = "IN_"
TEMP_ID_LETTERS = 16
"""80 bits: among ten million names, two share an id once in twenty thousand million databases."""
LONGEST_NAME = 500
"""Letters of a normal form. A longer cell is a paragraph, and PostgreSQL refuses it in an index."""
LONGEST_RAW_NAME = 4 * LONGEST_NAME
"""Letters of a name as it was written. A cell of a million letters is not even normalised."""


def normalize_for_temp_id(name: str) -> str:
    """Return the normal form of a name, which requests, mappings and temporary ids share. Empty if it names nothing."""
    if len(name) > LONGEST_RAW_NAME:
        return ""
    normal = storable(normalize_company(storable(name)))
    return normal if len(normal) <= LONGEST_NAME else ""


def temp_id(normalized_name: str, salt: str) -> str:
    """Return the temporary id of a normalised name: a keyed hash, so that nobody can guess names from ids."""
    digest = hmac.digest(salt.encode(), normalized_name.encode(), hashlib.sha256)
    return TEMP_ID_PREFIX + base64.b32encode(digest).decode("ascii")[:TEMP_ID_LETTERS]


def is_temp_id(company_id: str) -> bool:
    """Tell whether an id is a temporary one."""
    return company_id.startswith(TEMP_ID_PREFIX) and len(company_id) == len(TEMP_ID_PREFIX) + TEMP_ID_LETTERS
