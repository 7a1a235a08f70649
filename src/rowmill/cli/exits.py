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


class UsageError(BadRequest):
    """The command was not called as it has to be. Says what to write instead."""
