"""The topics that articles are sorted into: ours, or those of a team's own file.

A file in TOML:

    [topics."energy.wind"]
    en = { label = "Wind power", description = "wind farm, turbines, offshore wind, blades, grid connection" }
    de = { label = "Windkraft", description = "Windpark, Windräder, Rotorblätter, Netzanschluss" }
    aliases = ["wind"]
    includes = ["environment.renewables"]

`label` and `description` without a language are English. A key with a dot belongs to the group before the dot. A topic
that `includes` topics or groups of ours takes all that they find; without it, the nearest ones are found by their
descriptions.
"""

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import rowmill as rm

SHIPPED = Path(__file__).with_name("taxonomy.toml")
ENGLISH = "en"
LARGEST_FILE = 5 * 1024 * 1024
MOST_TOPICS = 2000
KEY = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9][a-z0-9_-]*)?")
LANGUAGE = re.compile(r"[a-z]{2,3}")
OTHER_KEYS = ("aliases", "includes", "label", "description")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic, or a group of topics."""

    key: str
    labels: Mapping[str, str]
    """By language."""
    descriptions: Mapping[str, str]
    """By language: words that such articles use."""
    aliases: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    """Topics or groups that ship with articles and are part of this one."""

    @property
    def group(self) -> str:
        return self.key.split(".")[0]

    def label(self, language: str = ENGLISH) -> str:
        """Return the label in a language, otherwise in English, otherwise in any."""
        return self.labels.get(language) or self.labels.get(ENGLISH) or next(iter(self.labels.values()))

    def text(self, language: str) -> str | None:
        """Return label and description in a language. None if the topic has none in it."""
        if language not in self.descriptions:
            return None
        return f"{self.labels.get(language, '')}: {self.descriptions[language]}".removeprefix(": ")


@dataclass(frozen=True)
class Taxonomy:
    """Topics by key, in the order of the file."""

    topics: Mapping[str, Topic]
    """What an article can get: topics, and groups that have no topics."""
    groups: Mapping[str, Topic]
    """Groups that have topics."""
    digest: str
    """Of the topics and descriptions: scores of another digest mean something else."""
    no_topic: tuple[str, ...] = ()
    """Texts that have no topic. Those that ship apply to every taxonomy."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages that every topic is described in. English, if there is none."""
        every = [set(topic.descriptions) for topic in self.topics.values()]
        common = set.intersection(*every) if every else set()
        return tuple(sorted(common, key=lambda language: (language != ENGLISH, language))) or (ENGLISH,)

    def members(self, key: str) -> tuple[str, ...]:
        """Return the topics that a key stands for: itself, or all of its group. Raises KeyError."""
        if key in self.topics:
            return (key,)
        if key not in self.groups:
            raise KeyError(key)
        return tuple(topic for topic in self.topics if topic.startswith(f"{key}."))

    def find(self, name: str) -> tuple[str, ...]:
        """Return the topics that a name stands for: a key, a label in any language, or an alias. Empty if none.

        Groups come first, then topics by their order: "Tennis" is one topic, "sport" all of its group.
        """
        return self._names.get(plain_name(name), ())

    @property
    def _names(self) -> Mapping[str, tuple[str, ...]]:
        return _names_of(self)

    def __hash__(self) -> int:
        return hash(self.digest)


@cache
def _names_of(taxonomy: Taxonomy) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    both = [*taxonomy.groups.values(), *taxonomy.topics.values()]
    # Keys win over labels, labels over aliases and last parts of keys: the most exact name is set first and stays.
    names = [(topic.key, topic.key) for topic in both]
    names += [(label, topic.key) for topic in both for label in topic.labels.values()]
    names += [(name, topic.key) for topic in both for name in (*topic.aliases, topic.key.split(".")[-1])]
    for name, key in names:
        found.setdefault(plain_name(name), taxonomy.members(key))
    return found


def plain_name(name: str) -> str:
    """Return a name without case and punctuation: "Style & Beauty" is "style and beauty"."""
    return " ".join(re.findall(r"\w+", name.casefold().replace("&", " and ").replace("_", " ")))


def load_taxonomy(path: Path | None = None) -> Taxonomy:
    """Load the topics of a file; without one, those that ship.

    Raises DeclarationError with every problem of the file, each with its line and its fix.
    """
    return _shipped() if path is None else _load(path)


@cache
def _shipped() -> Taxonomy:
    return _load(SHIPPED)


def _load(path: Path) -> Taxonomy:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise _bad(
                path, [f"it is larger than {LARGEST_FILE // 1024 // 1024} MB. Look whether it is the right file"]
            )
        text = path.read_text("utf-8-sig")
    except OSError:
        raise _bad(path, ["it can't be read. Give the path of a TOML file"]) from None
    except UnicodeDecodeError:
        raise _bad(path, ["it is not UTF-8. Save it as UTF-8"]) from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(path, [f"it is not TOML: {error}. Texts stand in double quotes"]) from None
    except RecursionError:
        raise _bad(path, ["it is nested too deeply. Write topics as [topics.name]"]) from None
    problems: list[str] = []
    topics = dict(_topics(data, text, problems))
    if not problems:
        problems += _check_all(topics, text)
    texts = data.get("no_topic", {}).get("texts", []) if isinstance(data.get("no_topic", {}), dict) else None
    if not isinstance(texts, list) or not all(isinstance(each, str) for each in texts):
        problems.append('no_topic is no table with texts. Write: [no_topic] and texts = ["…"]')
    for unknown in sorted(set(data) - {"topics", "no_topic"}):
        problems.append(f'{_place(text, unknown)}"{unknown}" is not known. Write topics as [topics.{unknown}]')
    if problems:
        raise _bad(path, problems)
    with_topics = {topic.group for topic in topics.values() if "." in topic.key}
    digest = hashlib.sha256(repr(sorted((key, sorted(t.descriptions.items())) for key, t in topics.items())).encode())
    return Taxonomy(
        {key: topic for key, topic in topics.items() if key not in with_topics},
        {key: topic for key, topic in topics.items() if key in with_topics},
        digest.hexdigest()[:16],
        tuple(texts or ()),
    )


def _bad(path: Path, problems: Sequence[str]) -> rm.errors.DeclarationError:
    return rm.errors.DeclarationError(str(path), problems, "taxonomy")


def _topics(data: Mapping[str, Any], text: str, problems: list[str]) -> Iterator[tuple[str, Topic]]:
    raw = data.get("topics")
    if not isinstance(raw, dict) or not raw:
        problems.append('it has no topics. Write one as [topics."technology.ai"] with description = "…"')
        return
    if len(raw) > MOST_TOPICS:
        problems.append(f"it has {len(raw)} topics. More than {MOST_TOPICS} can't be told apart: join some")
        return
    for key, given in raw.items():
        wrong = list(_problems(key, given))
        problems += [f"{_place(text, key)}{key}: {each}" for each in wrong]
        if not wrong:
            yield key, _topic(key, given)


def _problems(key: str, given: Any) -> Iterator[str]:
    if not KEY.fullmatch(key):
        yield 'a key has small letters, digits, _ and -, and one dot at most. Write it as "technology.ai"'
        return
    if not isinstance(given, dict):
        yield f'it is no table. Write [topics."{key}"] and below it description = "…"'
        return
    languages = {name: value for name, value in given.items() if name not in OTHER_KEYS}
    for name, value in languages.items():
        if LANGUAGE.fullmatch(name) and _is_language(value):
            continue
        if isinstance(value, dict) and not LANGUAGE.fullmatch(name):
            yield f'"{name}" is no language. A topic below a group is written as [topics."{key}.{name}"]'
        else:
            yield f'"{name}" has to be {{ label = "…", description = "…" }}, under the code of a language as en'
    for name in ("label", "description"):
        if name in given and not (isinstance(given[name], str) and given[name].strip()):
            yield f'{name} is no text. Write {name} = "…"'
    for name in ("aliases", "includes"):
        listed = given.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            yield f'{name} is no list of texts. Write {name} = ["…"]'
    if "description" not in given and not languages:
        yield 'it has no description. Write description = "ten words that such articles use"'


def _is_language(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) - {"label", "description"}:
        return False
    texts = [value.get("label", "-"), value.get("description")]
    return all(isinstance(each, str) and each.strip() for each in texts)


def _topic(key: str, given: Mapping[str, Any]) -> Topic:
    named = {name: value for name, value in given.items() if name not in OTHER_KEYS}
    if "description" in given:
        named = {ENGLISH: {"description": given["description"]}, **named}
    fallback = given.get("label") or key.split(".")[-1].replace("_", " ").replace("-", " ").capitalize()
    labels = {language: value["label"].strip() for language, value in named.items() if "label" in value}
    if "label" in given or not labels:
        labels = {ENGLISH: fallback, **labels}
    return Topic(
        key,
        labels,
        {language: value["description"].strip() for language, value in named.items()},
        tuple(given.get("aliases", ())),
        tuple(given.get("includes", ())),
    )


def _check_all(topics: Mapping[str, Topic], text: str) -> Iterator[str]:
    """Yield what can only be seen with all topics at hand."""
    seen: dict[str, str] = {}
    for key, topic in topics.items():
        for description in topic.descriptions.values():
            if (other := seen.setdefault(plain_name(description), key)) != key:
                yield f"{_place(text, key)}{key}: it is described like {other}. Say what tells them apart"
    for key, topic in topics.items():
        for name in topic.includes:
            if name not in _shipped().topics and name not in _shipped().groups:
                yield f"{_place(text, key)}{key}: includes {name}, which is no topic of ours. Look into taxonomy.toml"


def _place(text: str, key: str) -> str:
    """Name the line of a table, as far as it can be found: the parser does not say."""
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.split("#")[0].replace('"', "").replace("'", "").replace(" ", "")
        if bare.startswith((f"[topics.{key}]", f"[{key}]", f"{key}=", f"topics.{key}", f"[topics.{key}.")):
            return f"line {number}: "
    return ""
