"""Publisher for Kafka. Retries of the producer neither duplicate nor reorder messages."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

from rowmill.model.errors import PermanentError, ProviderDown, TransientError, WorkError
from rowmill.outbox.connection import BrokerConnection, client_library, unreachable
from rowmill.outbox.message import Message

POLL_SECONDS = 0.1
FLUSH_SECONDS = 5.0


class KafkaPublisher:
    """Publishes to Kafka with `acks=all` and `enable.idempotence`, and waits for the delivery report.

    The message key is the aggregate, so its events stay in order in one partition. Kafka does not detect an event that
    two workers sent: consumers detect it by its id.
    """

    def __init__(self, servers: str = "127.0.0.1:9092", *, timeout: float = 30.0, **config: Any) -> None:
        """`timeout` is the time in seconds until a message must be confirmed. `config` has more settings of the
        producer, with underscores for dots: `security_protocol="SASL_SSL"`."""
        self._config: dict[str, Any] = {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": int(timeout * 1000),
            "linger.ms": 5,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self._connection: BrokerConnection[_Producer] = BrokerConnection(self._connect, _close)

    async def _connect(self) -> "_Producer":
        return _Producer(client_library("confluent_kafka", "kafka"), self._config)

    async def publish(self, message: Message) -> None:
        kafka = client_library("confluent_kafka", "kafka")
        producer = await self._connection.get()
        try:
            error = await producer.produce(message)
        except BufferError:
            raise ProviderDown("more waits to be sent to Kafka than the producer takes", retry_after=5.0) from None
        except kafka.KafkaException as raised:
            error = raised.args[0]
        if error is None:
            return
        if error.fatal():
            await self._connection.drop(producer)
        raise translate_error(kafka.KafkaError, error)

    async def close(self) -> None:
        await self._connection.close()


def translate_error(kinds: Any, error: Any) -> WorkError:
    """Translate the error of a delivery report to an exception of Rowmill."""
    if error.code() in (kinds.MSG_SIZE_TOO_LARGE, kinds.RECORD_LIST_TOO_LARGE):
        return PermanentError("the message is larger than the broker takes", code="too_large")
    if error.code() in (kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_TOPIC):
        return TransientError("there is no such topic", code="no_topic")
    gone = (kinds._MSG_TIMED_OUT, kinds._TIMED_OUT, kinds._TRANSPORT, kinds._ALL_BROKERS_DOWN, kinds._PURGE_QUEUE)
    if error.code() in gone or error.fatal() or error.retriable():
        return unreachable("Kafka", TimeoutError() if error.code() in gone else ConnectionError())
    return TransientError(f"Kafka refuses it: {error.name()}", code="refused")


class _Producer:
    """The library's producer, with a thread that polls for delivery reports."""

    def __init__(self, kafka: Any, config: dict[str, Any]) -> None:
        self._producer = kafka.Producer(config, logger=_SILENT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="rowmill-kafka", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(POLL_SECONDS)

    async def produce(self, message: Message) -> Any:
        """Send a message. Return the error of its delivery report; None once all replicas have it."""
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[Any] = loop.create_future()

        def tell(error: Any) -> None:
            if not reported.done():
                reported.set_result(error)

        def delivered(error: Any, _: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(tell, error)

        headers = message.headers("ce_") | {"content-type": message.content_type}
        self._producer.produce(
            message.subject, message.body, key=message.key, on_delivery=delivered,
            headers=[(name, value.encode()) for name, value in headers.items()],
        )  # fmt: skip
        return await reported

    def close(self) -> None:
        self._producer.purge(in_flight=False)
        self._producer.flush(FLUSH_SECONDS)
        self._stop.set()
        self._thread.join(FLUSH_SECONDS)


async def _close(producer: _Producer) -> None:
    await asyncio.to_thread(producer.close)


class _Silent:
    """A logger that discards messages. Errors reach us by delivery reports."""

    def log(self, *_: Any, **__: Any) -> None: ...


_SILENT = _Silent()
