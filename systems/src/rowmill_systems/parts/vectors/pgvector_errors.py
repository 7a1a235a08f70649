"""Errors of PostgreSQL and pgvector, and of the way to them."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from rowmill_systems.parts.vectors.errors import VectorsRefused, VectorsUnavailable

MISSING_TYPE = "the database lacks pgvector. Let an administrator run: CREATE EXTENSION vector"
MISSING_PACKAGE = "the server lacks pgvector. Install its package, as postgresql-17-pgvector, on the server"
NO_TABLES = "the database has no tables of vectors: nothing was stored yet, or it is another database"
NO_RIGHTS = (
    "the role may not do that. Let an administrator run CREATE EXTENSION vector, and grant the role CREATE on the "
    "database, or the rights on the schema rowmill_vectors"
)
REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)


@contextmanager
def translated() -> Iterator[None]:
    """Turn errors of PostgreSQL and of the network into VectorsUnavailable, by their code, never by their text."""
    try:
        yield
    # The internal error is what a session ends with that was terminated within a transaction.
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
        raise meaning(error) from error


def meaning(error: Exception) -> VectorsUnavailable:
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError():
            return VectorsUnavailable(NO_TABLES)
        case asyncpg.UndefinedObjectError() | asyncpg.UndefinedFunctionError():
            return VectorsRefused(MISSING_TYPE)
        case asyncpg.FeatureNotSupportedError() | asyncpg.UndefinedFileError():
            return VectorsRefused(MISSING_PACKAGE)
        case asyncpg.InsufficientPrivilegeError():
            return VectorsRefused(NO_RIGHTS)
        case asyncpg.PostgresError():
            kind = VectorsRefused if isinstance(error, REFUSED) else VectorsUnavailable
            return kind(f"PostgreSQL answers {error.sqlstate} ({type(error).__name__})")
        case TimeoutError():
            return VectorsUnavailable("PostgreSQL takes too long")
    return VectorsUnavailable(f"PostgreSQL can't be reached, or broke off: {type(error).__name__}")
