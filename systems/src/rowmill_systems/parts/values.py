"""Values as JSON: those that databases keep, and a hash by which they are told apart."""

import hashlib
import json
import re
from typing import Any

UNFIT = re.compile("[\x00\ud800-\udfff]")
"""Of a text: what not every database keeps."""
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
NUMBERS = re.compile(r"[-+\d][-+\d., ]*")
"""Numbers, dates and places: whatever a spreadsheet makes of them, it calls nothing."""


def made_fit(value: Any) -> Any:
    """The same without NUL and halves of characters: whoever reads what strangers write may find them."""
    match value:
        case str():
            return UNFIT.sub("", value)
        case list() | tuple():
            return [made_fit(one) for one in value]
        case dict():
            return {made_fit(name): made_fit(one) for name, one in value.items()}
    return value


def value_hash(value: Any) -> str:
    """The same for values that are the same as JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def harmless(text: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula and runs."""
    if text.startswith(FORMULA) and not NUMBERS.fullmatch(text):
        return f"'{text}"
    return text
