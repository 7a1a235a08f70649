"""Events to Kafka, with a producer whose own retries neither repeat nor reorder."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

from rowmill.model.errors import PermanentError, ProviderDown, TransientError, WorkError
from rowmill.outbox.connection import Connected, away, driver
from rowmill.outbox.message import Message

POLL_SECONDS = 0.1
FLUSH_SECONDS = 5.0


class KafkaPublisher:
    """Produces with `acks=all` and `enable.idempotence`, and waits for the delivery report. The key is the aggregate,
    so that its events are in one partition, in order. Kafka does not know an event again that was sent by two workers:
    the consumer does, by its id.
    """

    def __init__(self, servers: str = "127.0.0.1:9092", *, timeout: float = 30.0, **config: Any) -> None:
        """`timeout` is how long a message may take to be confirmed; `config` holds more settings of the producer, with
        underscores for dots: `security_protocol="SASL_SSL"`."""
        self._config: dict[str, Any] = {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.timeout.ms": int(timeout * 1000),
            "linger.ms": 5,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self._connected: Connected[_Producer] = Connected(self._connect, _close)

    async def _connect(self) -> "_Producer":
        return _Producer(driver("confluent_kafka", "kafka"), self._config)

    async def publish(self, message: Message) -> None:
        kafka = driver("confluent_kafka", "kafka")
        producer = await self._connected.get()
        try:
            error = await producer.produce(message)
        except BufferError:
            raise ProviderDown("more waits to be sent to Kafka than the producer takes", retry_after=5.0) from None
        except kafka.KafkaException as raised:
            error = raised.args[0]
        if error is None:
            return
        if error.fatal():
            await self._connected.drop(producer)
        raise judged(kafka.KafkaError, error)

    async def close(self) -> None:
        await self._connected.close()


def judged(kinds: Any, error: Any) -> WorkError:
    """What a delivery report says, as one of ours."""
    if error.code() in (kinds.MSG_SIZE_TOO_LARGE, kinds.RECORD_LIST_TOO_LARGE):
        return PermanentError("the message is larger than the broker takes", code="too_large")
    if error.code() in (kinds.UNKNOWN_TOPIC_OR_PART, kinds._UNKNOWN_TOPIC):
        return TransientError("there is no such topic", code="no_topic")
    gone = (kinds._MSG_TIMED_OUT, kinds._TIMED_OUT, kinds._TRANSPORT, kinds._ALL_BROKERS_DOWN, kinds._PURGE_QUEUE)
    if error.code() in gone or error.fatal() or error.retriable():
        return away("Kafka", TimeoutError() if error.code() in gone else ConnectionError())
    return TransientError(f"Kafka refuses it: {error.name()}", code="refused")


class _Producer:
    """The library's producer, and a thread that fetches its delivery reports."""

    def __init__(self, kafka: Any, config: dict[str, Any]) -> None:
        self._producer = kafka.Producer(config, logger=_SILENT)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="rowmill-kafka", daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stop.is_set():
            self._producer.poll(POLL_SECONDS)

    async def produce(self, message: Message) -> Any:
        """The error of the delivery report; None when all replicas have it."""
        loop = asyncio.get_running_loop()
        reported: asyncio.Future[Any] = loop.create_future()

        def tell(error: Any) -> None:
            if not reported.done():
                reported.set_result(error)

        def delivered(error: Any, _: Any) -> None:
            with suppress(RuntimeError):  # the loop is gone: so is who waited
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
    """librdkafka tells its troubles to a logger; ours come by delivery reports."""

    def log(self, *_: Any, **__: Any) -> None: ...


_SILENT = _Silent()
