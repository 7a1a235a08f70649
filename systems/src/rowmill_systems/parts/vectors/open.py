"""Open a store of vectors by its URL."""

from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import SecretStr

import rowmill as rm
from rowmill_systems.parts.models.endpoint import is_header_value
from rowmill_systems.parts.vectors.port import VectorStore

FORMS = "./vectors.db, sqlite:////var/lib/vectors.db, postgresql://user@host/database or http://host:6333 of Qdrant"
POSTGRES = ("postgresql", "postgres", "postgresql+asyncpg", "postgresql+psycopg")
INSTALL_QDRANT = "qdrant-client is not installed. Run: pip install 'rowmill-systems[qdrant]'"
INSTALL_POSTGRES = "asyncpg is not installed. Run: pip install 'rowmill[postgres]'"


def open_vectors(url: str, *, api_key: SecretStr | None = None) -> VectorStore:
    """Open a file of SQLite, a database of PostgreSQL with pgvector, or a server of Qdrant.

    Does not connect: a store that is unavailable fails when it is used. The key is Qdrant's.
    """
    if "://" not in url:
        if not url.strip():
            raise wrong_url("", f"its URL is empty. Give one of {FORMS}")
        return file_of(Path(url))
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise wrong_url("", f"its URL can't be read. Give one of {FORMS}") from None
    match parts.scheme:
        case "sqlite":
            return file_of(sqlite_path(parts))
        case scheme if scheme in POSTGRES:
            return database_of(url, parts)
        case "http" | "https":
            return server_of(parts, api_key)
        case scheme:
            raise wrong_url(scheme, f"it is none of the known stores. Give one of {FORMS}")


def file_of(path: Path) -> VectorStore:
    from rowmill_systems.parts.vectors.sqlite import SqliteVectors

    return SqliteVectors(path)


def sqlite_path(parts: SplitResult) -> Path:
    if parts.netloc or len(parts.path) < 2 or parts.query or parts.fragment:
        raise wrong_url("sqlite", "it names no file. Write sqlite:///vectors.db, or sqlite:////var/lib/vectors.db")
    return Path(unquote(parts.path[1:]))


def database_of(url: str, parts: SplitResult) -> VectorStore:
    if len(parts.path) < 2:
        raise wrong_url("postgresql", "it names no database. Write postgresql://user@host/database")
    try:
        from rowmill_systems.parts.vectors.pgvector import PgVectors
    except ModuleNotFoundError as error:
        raise wrong_url("postgresql", INSTALL_POSTGRES) from error
    return PgVectors("postgresql" + url[len(parts.scheme) :])


def server_of(parts: SplitResult, api_key: SecretStr | None) -> VectorStore:
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise wrong_url(parts.scheme, "keys do not belong into a URL, which is logged. Pass api_key")
    if not parts.hostname:
        raise wrong_url(parts.scheme, "it names no server. Write http://host:6333")
    if api_key is not None and not is_header_value(api_key.get_secret_value()):
        raise wrong_url(parts.scheme, "api_key can't be sent in a header. Look for spaces and line ends around it")
    try:
        from rowmill_systems.parts.vectors.qdrant import QdrantVectors
    except ModuleNotFoundError as error:
        raise wrong_url(parts.scheme, INSTALL_QDRANT) from error
    return QdrantVectors(parts.geturl(), api_key)


def wrong_url(scheme: str, problem: str) -> rm.errors.DeclarationError:
    """Return the error without the URL, which may have secrets in it."""
    return rm.errors.DeclarationError(f"{scheme}://…" if scheme else "of vectors", [problem], "store")
