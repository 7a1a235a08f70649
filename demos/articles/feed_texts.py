"""Articles for made-up feeds. The same feed and number always give the same article."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

SUBJECTS: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "football": (
        ("The league champions", "A young striker", "The national team", "Their goalkeeper"),
        ("wins the derby", "signs for a rival club", "scores twice in the cup final", "misses the play-offs"),
        ("The coach praised the defence after the match.", "Fans filled the stadium.", "The transfer fee is a record."),
    ),
    "stock markets": (
        ("The central bank", "A large retailer", "The oil producer", "A chip maker"),
        ("raises its forecast", "cuts interest rates", "reports falling profits", "buys back shares"),
        ("Shares rose in early trading.", "Analysts had expected less.", "Investors fear inflation."),
    ),
    "space": (
        ("A new telescope", "The lunar probe", "An old satellite", "The rocket"),
        ("finds water on a distant planet", "reaches orbit", "sends its last picture", "lands for the tenth time"),
        ("Astronomers have waited for years.", "The mission takes six months.", "Its data is free for everybody."),
    ),
    "health": (
        ("A vaccine", "The hospital", "A long study", "The health ministry"),
        ("lowers the risk of infection", "opens a ward for children", "warns of a new virus", "explains asthma"),
        ("Doctors advise patience.", "Patients took part for two years.", "The trial goes on."),
    ),
    "elections": (
        ("The opposition", "The prime minister", "A small party", "Parliament"),
        ("calls for a vote", "loses its majority", "agrees on a coalition", "rejects the budget"),
        ("Voters go to the polls in May.", "The campaign was short.", "Ministers declined to comment."),
    ),
    "software": (
        ("A widely used library", "The browser", "An open source database", "The language"),
        ("closes a security hole", "gets a faster compiler", "drops an old protocol", "ships its next release"),
        ("Developers should update.", "The change breaks some programs.", "The code is on the project's page."),
    ),
    "films": (
        ("The festival", "A first-time director", "The sequel", "An animated film"),
        ("opens with a comedy", "wins the main prize", "breaks records at the box office", "splits the critics"),
        ("The actors came in person.", "It runs for three hours.", "The soundtrack is by a young composer."),
    ),
    "climate": (
        ("A heat wave", "The glacier", "The summit", "A storm"),
        ("dries out the rivers", "shrinks faster than thought", "ends without a treaty", "floods the coast"),
        ("Emissions rose again last year.", "Forests suffer the most.", "Scientists had warned of it."),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MadeArticle:
    number: int
    subject: str
    title: str
    text: str
    published: datetime


def drawn(*of: object) -> int:
    """Return a number that depends on these values alone."""
    return int.from_bytes(hashlib.sha256(repr(of).encode()).digest()[:6], "big")


def subject_of(feed: str) -> str:
    return sorted(SUBJECTS)[drawn("subject", feed) % len(SUBJECTS)]


def article(feed: str, number: int, newest: datetime) -> MadeArticle:
    """Return an article of a feed. The higher its number, the newer it is: a minute each."""
    subject = subject_of(feed)
    who, what, more = SUBJECTS[subject]
    title = f"{who[drawn(feed, number, 1) % len(who)]} {what[drawn(feed, number, 2) % len(what)]}"
    sentences = [more[drawn(feed, number, place) % len(more)] for place in range(3, 6)]
    return MadeArticle(
        number, subject, f"{title} ({number})", " ".join([f"{title}.", *sentences]), newest + timedelta(minutes=number)
    )
