import sys
import types
from typing import Any


class Answer:
    def __init__(self, status: int, text: str) -> None:
        self.status, self.text, self.headers = status, text, {"retry-after": "600"}


async def get(url: str, name: str) -> Answer:
    return Answer({"busy": 429, "stranger": 401}.get(name, 200), f"id of {name}")


client: Any = types.ModuleType("httpx_like")
client.get = get
sys.modules["httpx_like"] = client


async def look_up(name: str) -> str | None:
    return f"id of {name}"
