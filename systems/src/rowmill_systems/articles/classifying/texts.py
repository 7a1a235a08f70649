"""What a model reads of an article."""

import re
from collections.abc import Sequence

import rowmill as rm
from rowmill_systems.articles.classifying.port import ArticleText

MOST_CHARACTERS = 2000
"""Of title and description. The topic of an article stands at its beginning, and more text costs time."""
STEM = 6
"""Letters of a word that count: endings differ ("voters", "voting")."""
SHORT = 3
"""Words of up to 3 letters count only in capitals, as NBA: most of the others are articles and prepositions."""
WORD = re.compile(r"\w+")


class ArticleUnreadable(rm.PermanentError):
    """An article has no text that could be read: its title or description is of another type."""

    code = "article_unreadable"

    def __init__(self) -> None:
        super().__init__("the title or the description of the article is no text")


def joined(article: ArticleText, most: int = MOST_CHARACTERS) -> str:
    """Return title and description as one text, cut, without half characters. Raises ArticleUnreadable."""
    title, description = article.title, article.description
    if not all(isinstance(each, str) for each in (title, description)):
        raise ArticleUnreadable
    title, description = title[:most].strip(), description[:most].strip()
    if description.startswith(title):  # some feeds repeat it
        title = ""
    text = f"{title}. {description}" if title and description else title or description
    return text[:most].encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def readable(articles: Sequence[ArticleText], most: int = MOST_CHARACTERS) -> list[str | Exception]:
    """Return the text of each article, or the reason why it has none."""
    found: list[str | Exception] = []
    for article in articles:
        try:
            found.append(joined(article, most))
        except Exception as error:  # an article may be anything at all: it must not stop the others
            found.append(error if isinstance(error, ArticleUnreadable) else ArticleUnreadable())
    return found


def stems(text: str) -> set[str]:
    """Return the beginnings of the words of a text that are worth comparing."""
    return {
        word.casefold()[:STEM]
        for word in WORD.findall(text)
        if len(word) > SHORT or (len(word) > 1 and word.isupper()) or not word.isascii()
    }
