"""Errors of sheets."""

import rowmill as rm


class BadSheet(rm.PermanentError):
    """A file can't be read as a table, or can't be written.

    The message says what to do, and names lines, not their contents.
    """

    code = "bad_sheet"
