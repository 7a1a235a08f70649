"""Values of fields on pages: as one line of text, and in forms."""

import json
from typing import Any, Literal

LONGEST = 20_000


def shown_value(value: Any) -> str:
    """Return a value as one line of text."""
    match value:
        case {"amount": amount, "currency": currency}:
            return f"{amount} {currency or ''}".strip()
        case list():
            return f"{len(value)} rows" if value and isinstance(value[0], dict) else ", ".join(map(str, value))
        case str():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)


def kind_of(value: Any) -> Literal["amount", "text", "json"]:
    """Return the kind of form fields that a value needs."""
    match value:
        case {"amount": _, "currency": _, **rest} if not rest:
            return "amount"
        case str():
            return "text"
        case _:
            return "json"


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def value_from(before: Any, *, text: str, amount: str, currency: str) -> Any:
    """Parse a value from a form, of the same kind as the value before. Raises ValueError."""
    if len(text) > LONGEST or len(amount) > LONGEST:
        raise ValueError(f"write at most {LONGEST} characters")
    match kind_of(before):
        case "amount":
            if not amount.strip():
                raise ValueError("write an amount")
            return {**before, "amount": amount.strip(), "currency": currency.strip()[:10].upper() or None}
        case "text":
            if not text.strip():
                raise ValueError("write a value")
            return text.strip().replace("\r\n", "\n")
        case "json":
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                raise ValueError("write JSON, as it was") from None
