"""Call HTTP services within limits of the whole fleet, and cache what they answer.

    import sqlalchemy as sa
    from rowmill_systems.parts.services import Address, AnswerCache, ServiceSettings, answers_table
    from rowmill_systems.parts.services import declare_limits, open_services

    answers = answers_table("service_answers", sa.MetaData())
    await mill.run(answers.create)                              # your migration does this
    settings = ServiceSettings("research", contact="team@example.org", calls_per_second=10)
    limits = declare_limits(mill, ["wikidata"], settings)
    services = open_services([Address("wikidata", address)], limits, AnswerCache(mill, answers), settings)
    found = await services["wikidata"].get("", {"action": "wbsearchentities", "search": "Ada", "language": "en"})
    print(found["search"])
    await services.close()

A question that several callers ask at once is sent once. A 429 keeps the whole fleet away for as long as Retry-After
says; a service that is down opens its limit's breaker. Neither costs a row an attempt.
"""

from rowmill_systems.parts.services.cache import AnswerCache, answers_table
from rowmill_systems.parts.services.errors import RequestRejected, RequestTooLong
from rowmill_systems.parts.services.http import HttpService
from rowmill_systems.parts.services.open import Address, HttpServices, declare_limits, open_services
from rowmill_systems.parts.services.service import BatchQuery, ServiceClient
from rowmill_systems.parts.services.settings import ServiceSettings

__all__ = [
    "Address", "AnswerCache", "BatchQuery", "HttpService", "HttpServices", "RequestRejected", "RequestTooLong",
    "ServiceClient", "ServiceSettings", "answers_table", "declare_limits", "open_services",
]  # fmt: skip
