import sys
import types
from typing import Any


async def resolve(name: str) -> str:
    if name == "unknown":
        raise LookupError(name)
    return f"id of {name}"


lookup: Any = types.ModuleType("lookup")
lookup.resolve = resolve
sys.modules["lookup"] = lookup
