"""Group candidates that are the same thing."""

from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from rowmill_systems.entities.linking.context import telling
from rowmill_systems.entities.linking.evidence import agreement
from rowmill_systems.entities.things import Candidate
from rowmill_systems.parts.names.folding import folded


def things(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    """Group candidates by any id that two of them share, also by way of a third."""
    found = list[tuple[set[str], list[Candidate]]]()
    for candidate in candidates:
        ids, same = set(_ids(candidate)), [candidate]
        for other in [each for each in found if each[0] & ids]:
            found.remove(other)
            ids, same = ids | other[0], other[1] + same
        found.append((ids, same))
    return [same for _, same in found]


def may_be_the_same(one: Sequence[Candidate], other: Sequence[Candidate]) -> bool:
    """Tell whether two things without a common id look like one.

    They are not merged; but a further source that has the same thing under its own id must not make the choice less
    certain.
    """
    if {each.source for each in one} & {each.source for each in other}:
        return False
    if any(any(map(of, one)) and any(map(of, other)) for of in (wikidata_id_of, dbpedia_uri_of)):
        return False
    first, second = one[0], other[0]
    return (
        folded(first.name) == folded(second.name)
        and (not first.types or not second.types or bool(first.types & second.types))
        and agreement(first.facts, second.facts) >= 0
        and _told_alike(first, second)
    )


def wikidata_id_of(candidate: Candidate) -> str | None:
    return candidate.id if candidate.source == "wikidata" else candidate.wikidata_id


def dbpedia_uri_of(candidate: Candidate) -> str | None:
    return candidate.id if candidate.source == "dbpedia" else candidate.dbpedia_uri


def _ids(candidate: Candidate) -> Iterable[str]:
    yield f"{candidate.source} {candidate.id}"
    if wikidata := wikidata_id_of(candidate):
        yield f"wikidata {wikidata}"
    if dbpedia := dbpedia_uri_of(candidate):
        yield f"dbpedia {_resource(dbpedia)}"


def _resource(uri: str) -> str:
    """Normalise a URI: with https, with %C3%BC, as a page."""
    return unquote(uri).removeprefix("https:").removeprefix("http:").replace("/page/", "/resource/", 1)


def _told_alike(one: Candidate, other: Candidate) -> bool:
    if not one.description or not other.description:
        return True
    own_name = telling(one.name)
    return bool((telling(one.description) & telling(other.description)) - own_name)
