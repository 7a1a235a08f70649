"""Publisher for NATS JetStream. The stream detects duplicates by Nats-Msg-Id."""

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import PermanentError, TransientError
from rowmill.outbox.connection import BrokerConnection, client_library, unreachable
from rowmill.outbox.message import Message

SUBJECT = re.compile(r"[^\s.*>\x00-\x1f]+(\.[^\s.*>\x00-\x1f]+)*")
"""A valid subject. Some client versions don't check it, and a space or line break in a subject would start another
command."""
PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '%"')


class NatsPublisher:
    """Publishes to a JetStream stream and waits for its acknowledgement. You create the stream; its `duplicate_window`
    sets for how long it detects duplicates.

    The client's own reconnecting is off: it would buffer messages and send them after the caller has given up.
    """

    def __init__(
        self,
        servers: str | Sequence[str] = "nats://127.0.0.1:4222",
        *,
        stream: str | None = None,
        timeout: Duration = 5.0,
        **options: Any,
    ) -> None:
        """`stream` is the name of the stream that must accept the message; None: any. `options` are passed to
        `nats.connect`."""
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._stream, self._timeout, self._options = stream, in_seconds(timeout), options
        self._connection: BrokerConnection[Any] = BrokerConnection(self._connect, _close)

    async def _connect(self) -> Any:
        nats = client_library("nats", "nats")

        async def ignore(error: Exception) -> None:
            """Ignore errors reported in the background: the publish that fails raises."""

        return await nats.connect(
            servers=self._servers, allow_reconnect=False, connect_timeout=self._timeout,
            **{"error_cb": ignore, "name": "rowmill"} | self._options,
        )  # fmt: skip

    async def publish(self, message: Message) -> None:
        nats, js = client_library("nats", "nats"), client_library("nats.js.errors", "nats")
        if not SUBJECT.fullmatch(message.subject):
            raise PermanentError("NATS does not take this subject", code="bad_subject")
        headers = {name: quote(value, safe=PRINTABLE) for name, value in message.headers("ce-").items()}
        headers |= {"Nats-Msg-Id": quote(message.id, safe=PRINTABLE), "content-type": message.content_type}
        connection = None
        try:
            connection = await self._connection.get()
            await connection.jetstream().publish(
                message.subject, message.body, timeout=self._timeout, stream=self._stream, headers=headers
            )
        except nats.errors.MaxPayloadError:
            raise PermanentError("the message is larger than the server takes", code="too_large") from None
        except js.NoStreamResponseError:
            raise TransientError("no stream takes this subject", code="no_stream") from None
        except js.ServiceUnavailableError as error:
            raise unreachable("NATS", error) from error
        except js.APIError as error:
            raise TransientError(f"the stream refuses it: error {error.err_code}", code="refused") from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            await self._connection.drop(connection)
            raise unreachable("NATS", error) from error

    async def close(self) -> None:
        await self._connection.close()


async def _close(connection: Any) -> None:
    await connection.close()
