"""Where a model is, and how it is called."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import SecretStr

import rowmill as rm


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model on an OpenAI-compatible server. Raises DeclarationError with all that is wrong; the key is not shown."""

    base_url: str
    """`/chat/completions` and `/embeddings` are added to it: `https://api.example.com/v1`."""
    model: str
    api_key: SecretStr | None = field(default=None, repr=False)
    timeout: float = 120.0
    """Seconds for one answer, from the first byte sent to the last one received."""

    def __post_init__(self) -> None:
        if problems := self.problems():
            raise rm.errors.DeclarationError(self.base_url if is_plain_server(self.base_url) else "", problems, "model")

    def problems(self) -> list[str]:
        """Return what is wrong with the settings, each with its fix."""
        return [
            *([] if is_plain_server(self.base_url) else [
                "base_url is not the address of a server. Write https://host/v1, without user, query or fragment"
            ]),
            *([] if self.model.strip() else ["model is empty. Name one that the server has"]),
            *([] if self.api_key is None or is_header_value(self.api_key.get_secret_value()) else [
                "api_key has characters that no header can carry. Look for spaces and line ends around it"
            ]),
            *([] if self.timeout > 0 else ["timeout is in seconds. Give a number above 0"]),
        ]  # fmt: skip


def is_plain_server(url: str) -> bool:
    """Tell whether a URL has nothing secret in it: HTTP clients log URLs."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    bare = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and bare


def is_header_value(key: str) -> bool:
    """Tell whether a header can carry it. A client that is given another value quotes it in its error."""
    return bool(key) and all("!" <= sign <= "~" for sign in key)
