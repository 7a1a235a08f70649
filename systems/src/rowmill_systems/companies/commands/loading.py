"""Build the system that options and environment describe."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import sqlalchemy as sa
import typer

from rowmill.errors import BadRequest, DeclarationError, PermanentError
from rowmill.systems import commands
from rowmill.systems.commands import UsageError
from rowmill_systems.parts.sheets import BadSheet

if TYPE_CHECKING:
    from rowmill_systems.companies.companies import Companies

NAME = "companies"
NEEDED = "companies needs packages that are not installed ({}). Run: pip install 'rowmill-systems[companies]'"
T = TypeVar("T")

ProvidersOption = Annotated[
    str | None,
    typer.Option("--providers", metavar="NAMES", help="Who is asked: eqc,file,… Otherwise WDH_PROVIDERS."),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--companies-file",
        metavar="FILE",
        help="Ask this CSV or Parquet file of companies. Otherwise WDH_COMPANIES_FILE.",
    ),
]
LARGEST_ID = 2**63 - 1
DelimiterOption = Annotated[
    str | None,
    typer.Option("--delimiter", metavar="SIGN", help="What separates the cells, if the detection is wrong: ';', tab…"),
]


def load(
    database_url: str | None = None, providers: str | None = None, companies_file: Path | None = None
) -> "Companies":
    """Build the system. Raises UsageError with the fix."""
    try:
        from rowmill_systems.companies.companies import Companies
        from rowmill_systems.companies.settings import CompaniesSettings
    except ImportError as error:
        raise UsageError(NEEDED.format(error.name)) from error
    if companies_file is not None and providers is None:
        providers = "file"
    settings = commands.settings_from(
        CompaniesSettings,
        database_url=commands.given_url(database_url),
        providers=providers,
        companies_file=companies_file,
    )
    with usage_errors():
        return Companies(settings)


def check_file(companies: "Companies") -> None:
    """Make the index of the file of companies, if it is asked. Raises UsageError if the file can't be used: otherwise
    every name would fail, and spend its attempts."""
    from rowmill_systems.companies.providers.file import FileProvider

    settings = companies.settings
    path = settings.companies_file
    if path is None or "file" not in [name.strip() for name in settings.providers.split(",")]:
        return
    provider = FileProvider(path, columns=settings.companies_columns, index_dir=settings.companies_index_dir)
    try:
        with usage_errors(str(path)), commands.progress(f"Reading {path.name}", 100) as seen:
            provider.prepare(lambda _, share: seen(round(share * 100)))
    finally:
        provider.close()


@contextmanager
def usage_errors(what: str = "") -> Iterator[None]:
    """Turn errors of input and settings into messages of the command line. `what` names the file."""
    try:
        yield
    except BadSheet as error:
        raise UsageError(f"{what}: {error}" if what else str(error)) from None
    except PermanentError as error:
        raise UsageError(f"{what}: {error}" if what else str(error)) from error
    except (BadRequest, DeclarationError) as error:
        raise UsageError(str(error)) from error


def prepared(companies: "Companies", *, same_salt: bool = True) -> "Companies":
    """Check that the tables and the salt are as they have to be. On SQLite the tables are created."""

    async def check() -> None:
        await commands.prepare(companies, NAME)
        if same_salt:
            await companies.check_salts()

    with usage_errors():
        commands.run_loop(check())
    return companies


def run(companies: "Companies", work: Callable[[sa.Connection], T]) -> T:
    """Do something in one transaction."""
    with usage_errors(), companies.engine.begin() as connection:
        return work(connection)
