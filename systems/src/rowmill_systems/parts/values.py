"""Values as JSON: what databases can store of them, and a hash to compare them by."""

import hashlib
import json
import math
import re
from typing import Any

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
"""Characters that not every database stores: NUL and lone surrogates."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
NUMBERS = re.compile(r"[-+\d][-+\d., ]*")
"""Numbers, dates and places: whatever a spreadsheet makes of them, it calls nothing."""


def storable(value: Any) -> Any:
    """Return the value without what not every database stores.

    Removes NUL and lone surrogates from texts, and replaces NaN and infinite numbers by None.
    """
    match value:
        case str():
            return UNSTORABLE.sub("", value)
        case float():
            return value if math.isfinite(value) else None
        case list() | tuple():
            return [storable(one) for one in value]
        case dict():
            return {storable(name): storable(one) for name, one in value.items()}
    return value


def value_hash(value: Any) -> str:
    """Return a hash that is the same for values that are the same as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def harmless(text: str) -> str:
    """Escape a text that a spreadsheet would take for a formula and run."""
    if text.startswith(FORMULA) and not NUMBERS.fullmatch(text):
        return f"'{text}"
    return text
