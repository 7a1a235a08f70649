"""What is wrong with a file."""

import rowmill as rm


class BadSheet(rm.PermanentError):
    """It can't be read as a table, or not be written. The message says what to do, and names lines, not what is in
    them."""

    code = "bad_sheet"
