"""Which model, where, and how much of it."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pydantic import SecretStr

import rowmill as rm


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Checked when they are made; all that is wrong is said at once, and the key is not shown."""

    base_url: str
    """What `/chat/completions` is added to, as `https://api.example.com/v1`."""
    model: str
    api_key: SecretStr | None = field(default=None, repr=False)
    timeout: float = 120.0
    """Seconds for one answer, from the first byte asked to the last one got."""
    wait: float = 60.0
    """Seconds to wait for room in the limit between the calls of one document. Its first call does not wait: then the
    file goes back, and nothing is lost."""
    max_input_tokens: int = 12_000
    """Of one call. Longer documents need several."""
    max_output_tokens: int = 4_000
    max_calls: int = 20
    """For one document. What would need more is left unread, and the log says how much."""

    def __post_init__(self) -> None:
        problems = [
            *([] if is_plain_server(self.base_url) else [
                "base_url is not the address of a server. Write https://host/v1, without user, query or fragment"
            ]),
            *([] if self.model.strip() else ["model is empty. Name one that the server has"]),
            *([] if self.api_key is None or is_header_value(self.api_key.get_secret_value()) else [
                "api_key has characters that no header can carry. Look for spaces and line ends around it"
            ]),
            *([] if self.timeout > 0 and self.wait >= 0 else ["timeout and wait are seconds. Give a timeout above 0"]),
            *([] if min(self.max_input_tokens, self.max_output_tokens, self.max_calls) > 0 else [
                "max_input_tokens, max_output_tokens and max_calls are counts. Give numbers above 0"
            ]),
        ]  # fmt: skip
        if problems:
            raise rm.errors.DeclarationError("of intake", problems, "model")


def is_plain_server(url: str) -> bool:
    """URLs are logged by HTTP clients: nothing in them may be secret."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    bare = not (parts.query or parts.fragment or "@" in parts.netloc)
    return parts.scheme in ("http", "https") and bool(parts.hostname) and bare


def is_header_value(key: str) -> bool:
    """A client that is given another one quotes it in its complaint."""
    return bool(key) and all("!" <= sign <= "~" for sign in key)
