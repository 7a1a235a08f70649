"""Find and import the mill of an application."""

import importlib
import os
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rowmill.cli.exits import UsageError
from rowmill.mill import Mill
from rowmill.model.errors import RowmillError

VARIABLE = "ROWMILL_APP"


@dataclass(frozen=True, slots=True)
class GlobalOptions:
    """Options given before the command: `rowmill --app x stats`."""

    app: str | None = None
    database_url: str | None = field(default=None, repr=False)
    debug: bool = False


GIVEN: ContextVar[GlobalOptions] = ContextVar("GIVEN")


def load_mill(app: str | None, database_url: str | None, *, may_create: bool = False) -> Mill:
    """Import the mill that `--app`, ROWMILL_APP or pyproject.toml names. `--database-url` overrides its database. Only
    a command with `may_create` creates a missing SQLite file."""
    given = GIVEN.get(GlobalOptions())
    name, folder = find_app(given.app if app is None else app)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    mill = import_mill(name, folder)
    url = given_url(database_url)
    if url is not None:
        mill.move_to(url)
    mill.store.may_create = may_create
    return mill


def given_url(database_url: str | None) -> str | None:
    """Return the URL of --database-url, given before or after the command."""
    url = GIVEN.get(GlobalOptions()).database_url if database_url is None else database_url
    if url is not None and not url.strip():
        raise UsageError("--database-url is empty. Is the variable set that you wrote there?")
    return url


def find_app(app: str | None) -> tuple[str, Path]:
    """Return the mill as module:attribute, and the folder to import it from."""
    here = Path.cwd()
    if app is not None and not app.strip():
        raise UsageError("--app is empty. Is the variable set that you wrote there?")
    if name := app or os.environ.get(VARIABLE):
        return name, here
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            import tomllib  # here, since a worker that names its mill does not need it

            try:
                settings = tomllib.loads(file.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise UsageError(f"{file} can't be read: {error}") from error
            name = settings.get("tool", {}).get("rowmill", {}).get("app")
            if name:
                return str(name), folder
            break
    raise UsageError(
        "which mill? Name it: --app module:mill, the environment variable ROWMILL_APP, "
        'or app = "module:mill" under [tool.rowmill] in pyproject.toml'
    )


def import_mill(name: str, folder: Path) -> Mill:
    """Import `module:attribute`. The attribute defaults to `mill`."""
    module_name, _, path = name.partition(":")
    path = path or "mill"
    if not all(part.isidentifier() for part in module_name.split(".")):
        raise UsageError(f"{name!r} names no module. Write it as Python imports it: module:mill or package.module:mill")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise RowmillError(f"importing {module_name} failed: {error}") from error
        raise UsageError(f"there is no module {module_name} in {folder} or in this Python's packages") from error
    except RowmillError:
        raise
    except Exception as error:
        raise RowmillError(f"importing {module_name} failed: {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            mills = [key for key, value in vars(found).items() if isinstance(value, Mill)]
            hint = f". It has: {', '.join(mills)}" if mills else ""
            raise UsageError(f"module {module_name} has no {path}{hint}")
        found = getattr(found, part)
    if not isinstance(found, Mill):
        raise UsageError(f"{module_name}:{path} is not a Mill but {type(found).__name__}")
    return found
