"""Find fields by a model, and keep what the pages confirm."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import rowmill as rm
from rowmill_systems.intake.analysis import Mapped
from rowmill_systems.intake.fields.catalogue import Catalogue, Field
from rowmill_systems.intake.fields.model.checking import Checked, Checker, Proof, merged
from rowmill_systems.intake.fields.model.prompting import LEAST_TOKENS, Part, messages, schema, split
from rowmill_systems.intake.fields.model.settings import ModelSettings
from rowmill_systems.intake.fields.model.values import is_proved
from rowmill_systems.parts.closing import AsyncCloseable
from rowmill_systems.parts.documents.document import Document
from rowmill_systems.parts.models import ModelAnswerUnreadable, ModelClient, ModelRejected, estimate_tokens, find_object

log = logging.getLogger("rowmill")
ONCE_MORE = {"role": "user", "content": "Answer with the JSON object alone."}


class ModelMapper(AsyncCloseable):
    """Maps documents by a model. Use it with `async with`, or close it.

    A document can make a model say anything. The worst result is a wrong suggestion, of a value that is on the page,
    which a person rejects.
    """

    def __init__(self, settings: ModelSettings, limit: rm.limits.Limit, *, proof: Proof = is_proved) -> None:
        """`limit` counts calls, and tokens if it has a budget.

        `proof` checks ids of schemes that we don't know: without proof, ids are suggested with little confidence.
        """
        self.settings = settings
        self._client = ModelClient(settings, limit)
        self._proof = proof

    async def map(self, document: Document, *, doc_type: str | None, catalogue: Catalogue) -> Mapped:
        """Return what the model finds and the pages confirm. Raises as ModelClient does."""
        fields = catalogue.for_type(doc_type)
        overhead = sum(estimate_tokens(each["content"]) for each in messages([], fields, doc_type))
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
        try:
            return await self._ask(asked, fields, wait)
        except ModelAnswerUnreadable:
            return await self._ask([*asked, ONCE_MORE], fields, self.settings.wait)

    async def _ask(self, asked: list[dict[str, str]], fields: Sequence[Field], wait: float) -> dict[str, Any]:
        tokens = self.settings.max_output_tokens
        reply = await self._client.chat(asked, max_tokens=tokens, schema=schema(fields), wait=wait)
        if reply.refused:
            raise ModelRejected("the model refuses to read it")
        return find_object(reply.text, lambda found: isinstance(found.get("suggestions"), list))

    def _tell(self, mapped: Mapped, checked: Checked, calls: int) -> None:
        """Log counts."""
        told = {
            "calls": min(calls, self.settings.max_calls),
            "calls_left_out": max(calls - self.settings.max_calls, 0),
            "suggestions": len(mapped.suggestions),
            "unmapped": len(mapped.unmapped),
        } | {f"dropped_{reason}": count for reason, count in sorted(checked.dropped.items()) if count}
        level = logging.WARNING if told["calls_left_out"] else logging.INFO
        log.log(level, "intake_model_mapped %s", told, extra={"rowmill": told})

    async def close(self) -> None:
        await self._client.close()
