"""Read what somebody typed into the search field. Any text is a query; none is an error."""

from rowmill_systems.knowledge.search.terms import terms_of

LONGEST = 4000
"""Characters of a query that are looked at."""
MOST_TERMS = 32
_STOPWORDS = (
    # English
    "a an and are as at be been but by can could did do does for from had has have how i if in into is it its may "
    "me my of on or our shall should so such than that the their them then there these they this those to was we "
    "were what when where which who whom why will with would you your "
    # German, French, Spanish, Italian, Portuguese, Dutch: none that is a word of substance in another of these
    "aber als am auf aus bei das dem den der des ein eine einem einen einer eines fur ich im ist mit nach nicht "
    "oder sich sie sind uber um und vom wer wie wir wird zu zum zur "
    "au aux avec ce ces cette dans du elle en est et il ils je la le les leur ne nous ou par pas pour qu que qui sa "
    "ses sont sur un une vous "
    "al como cual de del donde el es esta este lo los las mas para pero por se si su sus una y "
    "che chi da dal della delle di gli nel sono "
    "ao dos em na nas os pela pelo "
    "dat een het ik niet te voor wat wie zijn"
)
STOPWORDS = frozenset(term for word in _STOPWORDS.split() for term in terms_of(word))


def query_terms(query: str) -> tuple[str, ...]:
    """Return the terms to look for, each once. Words that stand in every text are left out, unless there are no
    others."""
    terms = tuple(dict.fromkeys(terms_of(query[:LONGEST])))
    telling = tuple(term for term in terms if term not in STOPWORDS)
    return (telling or terms)[:MOST_TERMS]
