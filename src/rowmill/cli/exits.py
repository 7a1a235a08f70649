"""Exit codes of the command line."""

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
    Exit.OK: "Success. Also if there was nothing to do.",
    Exit.FAILED: "Failure: there is no such row, a row named by its key can't be changed (a running one by requeue), "
    "the database refused a change, or you answered no.",
    Exit.USAGE: "Wrong usage: an unknown option, queue, state or column, or an invalid SQL condition.",
    Exit.UNREACHABLE: "The database is unreachable, or its URL is invalid. Try again later, or correct the URL.",
    Exit.SCHEMA: "A table, column, index or privilege is missing. The message names the command that fixes it.",
    Exit.FINDINGS: "`doctor`, `adopt`, `reconcile` or `watch --once` found something.",
    Exit.INTERRUPTED: "Interrupted by Ctrl-C; 143 after SIGTERM. A `work` that stops gracefully exits with 0.",
}
"""The meaning of each code, for the reference."""


class UsageError(BadRequest):
    """The command was called wrongly. The message says what to write instead."""
