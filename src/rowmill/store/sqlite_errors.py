"""What SQLite's errors mean to us."""


class RolledBack(Exception):
    """A trigger or a constraint of the user's rolled the whole transaction back."""


def refused_values(error: BaseException) -> str:
    """Why the database refused a value: the constraint, where it names one, never the value itself."""
    if isinstance(error, RolledBack):
        return str(error)
    original = getattr(error, "orig", error)
    name = getattr(original, "sqlite_errorname", None) or ""
    if name.startswith("SQLITE_CONSTRAINT") and name != "SQLITE_CONSTRAINT_TRIGGER":
        return f"{type(original).__name__} ({original})"
    return type(original).__name__


def connection_problem(error: object) -> bool:
    """Is the file in use, away or full, so that waiting may help?"""
    name = getattr(error, "sqlite_errorname", None) or ""
    return name.startswith(
        ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR", "SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_READONLY")
    )
