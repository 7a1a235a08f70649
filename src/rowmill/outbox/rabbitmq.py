"""Publisher for RabbitMQ, with publisher confirms."""

from dataclasses import dataclass
from typing import Any

from rowmill.model.duration import Duration, in_seconds
from rowmill.model.errors import TransientError
from rowmill.outbox.connection import BrokerConnection, client_library, unreachable
from rowmill.outbox.message import Message


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    connection: Any
    exchange: Any


class RabbitPublisher:
    """Publishes persistent messages to an exchange and waits until the broker confirms them.

    Messages are `mandatory`: one that reaches no queue has failed. RabbitMQ does not detect duplicates itself.
    Consumers detect them by `message_id`, or the de-duplication plugin by the header with the same value.
    """

    def __init__(
        self,
        url: str = "amqp://guest:guest@127.0.0.1/",
        *,
        exchange: str = "",
        timeout: Duration = 10.0,
        **options: Any,
    ) -> None:
        """You declare the `exchange`. Without one, the subject is the name of a queue. `options` are passed to
        `aio_pika.connect`."""
        self._url, self._exchange = url, exchange
        self._timeout, self._options = in_seconds(timeout), options
        self._connection: BrokerConnection[_Open] = BrokerConnection(self._connect, _close)

    async def _connect(self) -> _Open:
        pika = client_library("aio_pika", "rabbitmq")
        connection = await pika.connect(self._url, timeout=self._timeout, **self._options)
        try:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            if not self._exchange:
                return _Open(connection, channel.default_exchange)
            return _Open(connection, await channel.get_exchange(self._exchange))
        except BaseException:
            await connection.close()
            raise

    async def publish(self, message: Message) -> None:
        pika, errors = client_library("aio_pika", "rabbitmq"), client_library("aio_pika.exceptions", "rabbitmq")
        sent = pika.Message(
            message.body,
            content_type=message.content_type,
            delivery_mode=pika.DeliveryMode.PERSISTENT,
            message_id=message.id,
            type=message.attributes.get("type"),
            headers={**message.headers("cloudEvents:"), "x-deduplication-header": message.id},
        )
        opened = None
        try:
            opened = await self._connection.get()
            await opened.exchange.publish(sent, message.subject, mandatory=True, timeout=self._timeout)
        except errors.ChannelNotFoundEntity:
            await self._connection.drop(opened)
            raise TransientError(f"there is no exchange {self._exchange}", code="no_exchange") from None
        except errors.PublishError:
            raise TransientError("no queue takes this message", code="unroutable") from None
        except errors.DeliveryError:
            raise TransientError("the broker does not take this message", code="refused") from None
        except (errors.AMQPError, OSError, TimeoutError, RuntimeError) as error:
            await self._connection.drop(opened)
            raise unreachable("RabbitMQ", error) from error

    async def close(self) -> None:
        await self._connection.close()


async def _close(opened: _Open) -> None:
    await opened.connection.close()
