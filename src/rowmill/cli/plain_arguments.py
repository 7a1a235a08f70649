"""Parse the arguments of a command that runs for long without the parser of Typer.

Typer's parser imports pydantic, and a worker would hold its 8 MB for as long as it runs. `parse` reads the same
declarations, and knows plain calls only. For all others, and for every error, it returns None: then Typer parses,
prints the help, or says what is wrong.
"""

import re
from collections.abc import Callable, Sequence
from enum import Enum
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
DECIMAL = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)


class NotPlain(Exception):
    """Leave this call to Typer."""


class Parameter(NamedTuple):
    name: str
    kind: Any
    """The type of a value: of one item for a list."""
    many: bool
    info: OptionInfo | ArgumentInfo

    def value(self, text: str) -> Any:
        """Convert one value as Typer does. Raises NotPlain if it is unusual or out of bounds."""
        info = self.info
        if not text or text.startswith("-"):
            raise NotPlain
        if info.parser is not None:
            try:
                return info.parser(text)
            except typer.BadParameter:
                raise NotPlain from None
        if self.kind is str:
            return text
        if issubclass(self.kind, Enum):
            found = next((member for member in self.kind if member.value == text), None)
            if found is None:
                raise NotPlain
            return found
        if not {int: WHOLE, float: DECIMAL}[self.kind].fullmatch(text):
            raise NotPlain
        number = self.kind(text)
        if (info.min is not None and number < info.min) or (info.max is not None and number > info.max):
            raise NotPlain
        return number


def parse(command: Callable[..., Any], arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the keywords that Typer would call this command with, but for defaults; None: ask Typer."""
    options: dict[str, Parameter] = {}
    places: list[Parameter] = []
    for parameter in declared(command):
        if isinstance(parameter.info, OptionInfo):
            # In Annotated, Typer keeps the first name where a default would be.
            names = (parameter.info.default, *(parameter.info.param_decls or ()))
            options |= {str(name): parameter for name in names}
        else:
            places.append(parameter)
    try:
        return _read(options, places, list(arguments))
    except NotPlain:
        return None


def declared(command: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a command: Annotated[TYPE, typer.Option(…)] with TYPE, TYPE | None or list[TYPE]."""
    found = []
    for name, hint in get_type_hints(command, include_extras=True).items():
        if name == "return":
            continue
        kind, info = get_args(hint)
        if get_origin(kind) is UnionType:
            kind = next(part for part in get_args(kind) if part is not type(None))
        many = get_origin(kind) is list
        found.append(Parameter(name, get_args(kind)[0] if many else kind, many, info))
    return found


def _read(options: dict[str, Parameter], places: list[Parameter], words: list[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            if not places:
                raise NotPlain
            place = places.pop(0)
            given[place.name] = place.value(word)
            continue
        name, joined, text = word.partition("=") if word.startswith("--") else (word, "", "")
        option = options.get(name)
        if option is None or (option.name in given and not option.many):
            raise NotPlain
        if option.kind is bool:
            if joined:
                raise NotPlain
            given[option.name] = True
            continue
        if not joined:
            if not words:
                raise NotPlain
            text = words.pop(0)
        value = option.value(text)
        given[option.name] = [*given.get(option.name, []), value] if option.many else value
    return given
