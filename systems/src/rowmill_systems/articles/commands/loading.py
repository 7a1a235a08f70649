"""Build the system that options and environment describe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, TypeVar

import sqlalchemy as sa
import typer

from rowmill.errors import BadRequest, DeclarationError, PermanentError
from rowmill.systems import commands
from rowmill.systems.commands import UsageError

if TYPE_CHECKING:
    from rowmill_systems.articles.articles import Articles

NAME = "articles"
NEEDED = "articles needs packages that are not installed ({}). Run: pip install 'rowmill-systems[articles]'"
T = TypeVar("T")
PrivateOption = Annotated[
    bool,
    typer.Option(
        "--allow-private-addresses", help="Fetch from private and loopback addresses too. Otherwise they are refused."
    ),
]


def load(
    database_url: str | None = None, *, allow_private_addresses: bool = False, ml_enabled: bool | None = None
) -> "Articles":
    """Build the system. Raises UsageError with the fix."""
    try:
        from rowmill_systems.articles.articles import Articles
        from rowmill_systems.articles.settings import ArticlesSettings
    except ImportError as error:
        raise UsageError(NEEDED.format(error.name)) from error
    settings = commands.settings_from(
        ArticlesSettings,
        database_url=commands.given_url(database_url),
        allow_private_addresses=allow_private_addresses or None,
    )
    if ml_enabled is not None:
        settings = settings.model_copy(update={"ml_enabled": ml_enabled})
    with usage_errors():
        return Articles(settings)


@contextmanager
def usage_errors(what: str = "") -> Iterator[None]:
    """Turn errors of input and settings into messages of the command line. `what` names the file."""
    try:
        yield
    except PermanentError as error:
        raise UsageError(f"{what}: {error}" if what else str(error)) from error
    except (BadRequest, DeclarationError) as error:
        raise UsageError(str(error)) from error
    except LookupError as error:
        if isinstance(error, (KeyError, IndexError)):
            raise  # a mistake of ours
        raise UsageError(str(error)) from error  # the package of a model is not installed: it says the command


def check_classifier(articles: "Articles") -> None:
    """Open the model now: a wrong setting is an error of the command, and costs no article a try. Raises UsageError."""
    from rowmill_systems.articles.classifying.open import check_settings

    with usage_errors():
        check_settings(articles.settings)
        if articles.settings.classifier != "endpoint":  # its client belongs to the event loop
            _ = articles.classifier


def run(articles: "Articles", work: Callable[[sa.Connection], T], *, write: bool = False) -> T:
    """Check that the tables are there, and do something in one transaction."""

    async def prepared() -> T:
        await commands.prepare(articles, NAME)
        async with articles.opened():
            return await articles.mill.run(work, write=write)

    with usage_errors():
        return commands.run_loop(prepared())
