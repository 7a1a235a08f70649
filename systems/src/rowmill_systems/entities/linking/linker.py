"""Ask all sources, and choose."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import rowmill as rm
from rowmill_systems.entities.linking.choose import Choice, choose
from rowmill_systems.entities.sources.port import KnowsWikidata, Source
from rowmill_systems.entities.things import Candidate, Link, Mention


class Linker:
    def __init__(self, sources: Sequence[Source], *, threshold: float, gap: float) -> None:
        self._sources = tuple(sources)
        self._threshold = threshold
        self._gap = gap

    async def link(self, mention: Mention) -> Choice:
        """Choose among the candidates of all sources.

        Raises if a source could not be asked, since it may have known better.
        """
        candidates = await self._candidates(mention)
        # Beside the loop: with many aliases it takes a while, and the loop has leases to renew.
        choice = await asyncio.to_thread(
            choose,
            mention,
            candidates,
            threshold=self._threshold,
            gap=self._gap,
            order=[source.name for source in self._sources],
        )
        if choice.link is None or choice.link.wikidata_id:
            return choice
        return replace(choice, link=await self.with_wikidata_id(choice.link))

    async def with_wikidata_id(self, link: Link) -> Link:
        """Return the choice with Wikidata's id, if one of the sources that have the thing knows it."""
        for source in self._sources:
            if isinstance(source, KnowsWikidata) and (id := link.id_in(source.name)):
                link = replace(link, wikidata_id=link.wikidata_id or await source.wikidata_id(id))
        return link

    async def _candidates(self, mention: Mention) -> list[Candidate]:
        """Ask all sources at once.

        If one fails the others still finish: their answers are cached for the next attempt.
        """
        asked = (source.candidates(mention) for source in self._sources)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        if failures := [answer for answer in answers if isinstance(answer, BaseException)]:
            raise max(failures, key=_gravity)
        return [each for answer in answers if not isinstance(answer, BaseException) for each in answer]


def _gravity(failure: BaseException) -> tuple[int, float]:
    """Order failures: those first that waiting does not heal, then those with the longest wait."""
    match failure:
        case rm.RateLimited() | rm.errors.ProviderDown() | rm.errors.ProviderRefused() | rm.errors.Limited():
            return (0, failure.retry_after)
        case rm.TransientError():
            return (1, 0.0)
    return (2, 0.0)
