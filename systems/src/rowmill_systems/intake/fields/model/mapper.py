"""A mapper that asks a model, and keeps of its answers what the pages confirm."""

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import rowmill as rm
from rowmill_systems.intake.analysis import Mapped
from rowmill_systems.intake.fields.catalogue import Catalogue, Field
from rowmill_systems.intake.fields.model.answers import Unreadable, object_in, said
from rowmill_systems.intake.fields.model.chat import Chat, Rejected
from rowmill_systems.intake.fields.model.checking import Checked, Checker, Proof, merged
from rowmill_systems.intake.fields.model.prompting import LEAST_TOKENS, Part, estimate, messages, schema, split
from rowmill_systems.intake.fields.model.settings import ModelSettings
from rowmill_systems.intake.fields.model.values import is_proved
from rowmill_systems.parts.documents.document import Document

log = logging.getLogger("rowmill")
TRIES = 2
"""For an answer that can be read."""
NO_SCHEMA = (400, 422)
"""What servers say that know no schemas. If that is the reason, they take the same question without one."""
ONCE_MORE = {"role": "user", "content": "Answer with the JSON object alone."}


class ModelMapper:
    """`async with`, or `close` at the end.

    A document can make a model say anything. It comes to no more than a wrong suggestion, of a value that stands on
    the page, which a person rejects.
    """

    def __init__(self, settings: ModelSettings, limit: rm.limits.Limit, *, proof: Proof = is_proved) -> None:
        """`limit` counts calls, and tokens if it has a budget. `proof` is for ids of schemes whose check digits we do
        not know: without proof they are never suggested with much confidence."""
        self.settings = settings
        self._chat = Chat(settings, limit)
        self._proof = proof
        self._strict = True
        """The server takes a schema for its answers, as far as we know."""

    async def map(self, document: Document, *, doc_type: str | None, catalogue: Catalogue) -> Mapped:
        """Raises RateLimited, ProviderDown, ProviderRefused and Limited, which cost a row no attempt; ReadingTimedOut
        and `model_answer`, which pass; `model_rejected`, which does not."""
        fields = catalogue.for_type(doc_type)
        overhead = sum(estimate(each["content"]) for each in messages([], fields, doc_type))
        parts = list(split(document, max(self.settings.max_input_tokens - overhead, LEAST_TOKENS))) if fields else []
        checker, checked = Checker(document, fields, self._proof), Checked()
        for number, part in enumerate(parts[: self.settings.max_calls]):
            answer = await self._answer(part, fields, doc_type, self.settings.wait if number else 0.0)
            await asyncio.to_thread(checker.check, answer, [page for page, _ in part], checked)
        mapped = merged(checked, fields)
        self._tell(mapped, checked, len(parts))
        return mapped

    async def _answer(self, part: Part, fields: Sequence[Field], doc_type: str | None, wait: float) -> dict[str, Any]:
        asked = messages(part, fields, doc_type)
        for _ in range(TRIES):
            answer = await self._ask(asked, fields, wait)
            try:
                found = said(answer)
                if found.refused:
                    raise Rejected("the model refuses to read it")
                return object_in(found.text)
            except Unreadable:
                wait, asked = self.settings.wait, [*asked, ONCE_MORE]
        raise rm.TransientError("the model's answers can't be read", code="model_answer")

    async def _ask(self, asked: list[dict[str, str]], fields: Sequence[Field], wait: float) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.settings.model,
            "messages": asked,
            "temperature": 0,
            "max_tokens": self.settings.max_output_tokens,
        }
        cost = sum(estimate(each["content"]) for each in asked) + self.settings.max_output_tokens
        if self._strict:
            answers = {"name": "fields", "strict": True, "schema": schema(fields)}
            strict = body | {"response_format": {"type": "json_schema", "json_schema": answers}}
            try:
                return await self._chat.ask(strict, cost=cost, wait=wait)
            except Rejected as error:
                if error.status not in NO_SCHEMA:
                    raise
                found = await self._chat.ask(body, cost=cost, wait=self.settings.wait)
                self._strict = False
                return found
        return await self._chat.ask(body, cost=cost, wait=wait)

    def _tell(self, mapped: Mapped, checked: Checked, calls: int) -> None:
        """Counts only."""
        told = {
            "calls": min(calls, self.settings.max_calls),
            "calls_left_out": max(calls - self.settings.max_calls, 0),
            "suggestions": len(mapped.suggestions),
            "unmapped": len(mapped.unmapped),
        } | {f"dropped_{reason}": count for reason, count in sorted(checked.dropped.items()) if count}
        level = logging.WARNING if told["calls_left_out"] else logging.INFO
        log.log(level, "intake_model_mapped %s", told, extra={"rowmill": told})

    async def close(self) -> None:
        await self._chat.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
