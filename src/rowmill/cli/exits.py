"""What the process answers when it ends."""

from enum import IntEnum

from rowmill.model.errors import BadRequest


class Exit(IntEnum):
    """Exit codes. Scripts rely on them."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    SCHEMA = 4
    FINDINGS = 5
    INTERRUPTED = 130


MEANINGS = {
    Exit.OK: "The command did what it was asked to do. Nothing to do counts too.",
    Exit.FAILED: "It could not: there is no such row, a row that you named by its key can't be taken (`requeue` of a "
    "running one), the database refused a change, or you said no when asked.",
    Exit.USAGE: "It was called wrongly: an unknown option, queue, state or column, or a condition that is no SQL.",
    Exit.UNREACHABLE: "The database can't be reached, or its URL can't be used. Try again later, or mend the URL.",
    Exit.SCHEMA: "A table, a column, an index or a right is missing. The message names the command that mends it.",
    Exit.FINDINGS: "`doctor`, `adopt`, `reconcile` or `watch --once` found something.",
    Exit.INTERRUPTED: "Ctrl-C ended it; SIGTERM: 143. A `work` that stops gracefully on either exits with 0.",
}
"""What each code means, for the reference."""


class UsageError(BadRequest):
    """The command was not called as it has to be. Says what to write instead."""
