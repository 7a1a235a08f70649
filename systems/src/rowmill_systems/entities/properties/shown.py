"""Values of properties as people read them."""

import json
from typing import Any


def shown(value: Any) -> str:
    """Return a value as one line: the label of a thing, an amount with its unit, a latitude and a longitude."""
    match value:
        case str():
            return value
        case {"label": str(label)}:
            return label
        case {"lat": lat, "lon": lon}:
            return f"{lat}, {lon}"
        case {"amount": amount, "unit": unit}:
            return f"{amount} {shown(unit)}".strip()
        case list():
            return "; ".join(map(shown, value))
        case None:
            return ""
    return json.dumps(value, ensure_ascii=False)
