"""Events to NATS JetStream, which knows a message again by its Nats-Msg-Id."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from rowmill.model.errors import PermanentError, TransientError
from rowmill.outbox.connection import Connected, away, driver
from rowmill.outbox.message import Message

SUBJECT = re.compile(r"[^\s.*>\x00-\x1f]+(\.[^\s.*>\x00-\x1f]+)*")
"""Not every version of the client looks, and a space or a line break in a subject would be read as another command."""
PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '%"')


class NatsPublisher:
    """Publishes to a stream and waits for its acknowledgement. The stream is yours to make; its `duplicate_window`
    says for how long it knows a message again.

    The client's own reconnecting is off: it would keep messages and send them later, when nobody waits for them.
    """

    def __init__(
        self,
        servers: str | Sequence[str] = "nats://127.0.0.1:4222",
        *,
        stream: str | None = None,
        timeout: float = 5.0,
        **options: Any,
    ) -> None:
        """`stream` is the one that has to take the message, if it matters; `options` are those of `nats.connect`."""
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._stream, self._timeout, self._options = stream, timeout, options
        self._connected: Connected[Any] = Connected(self._connect, _close)

    async def _connect(self) -> Any:
        nats = driver("nats", "nats")

        async def said(error: Exception) -> None:
            """What fails, fails where somebody waits for it."""

        return await nats.connect(
            servers=self._servers, allow_reconnect=False, connect_timeout=self._timeout,
            **{"error_cb": said, "name": "rowmill"} | self._options,
        )  # fmt: skip

    async def publish(self, message: Message) -> None:
        nats, js = driver("nats", "nats"), driver("nats.js.errors", "nats")
        if not SUBJECT.fullmatch(message.subject):
            raise PermanentError("NATS does not take this subject", code="bad_subject")
        headers = {name: quote(value, safe=PRINTABLE) for name, value in message.headers("ce-").items()}
        headers |= {"Nats-Msg-Id": quote(message.id, safe=PRINTABLE), "content-type": message.content_type}
        connection = None
        try:
            connection = await self._connected.get()
            await connection.jetstream().publish(
                message.subject, message.body, timeout=self._timeout, stream=self._stream, headers=headers
            )
        except nats.errors.MaxPayloadError:
            raise PermanentError("the message is larger than the server takes", code="too_large") from None
        except js.NoStreamResponseError:
            raise TransientError("no stream takes this subject", code="no_stream") from None
        except js.ServiceUnavailableError as error:
            raise away("NATS", error) from error
        except js.APIError as error:
            raise TransientError(f"the stream refuses it: error {error.err_code}", code="refused") from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            await self._connected.drop(connection)
            raise away("NATS", error) from error

    async def close(self) -> None:
        await self._connected.close()


async def _close(connection: Any) -> None:
    await connection.close()
