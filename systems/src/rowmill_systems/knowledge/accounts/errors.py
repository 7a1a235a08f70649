"""Why an account or a login was refused. Each error has a stable `code`.

PermanentError
├── WrongLogin           wrong_login
├── EmailTaken           email_taken
├── EmailRefused         email_refused
├── PasswordRefused      password_refused
├── AccountMissing       no_such_user
├── LastAdministrator    last_administrator
├── TokenMissing         no_such_token
└── TooManyTokens        too_many_tokens
TransientError
├── LoginsBlocked        too_many_logins
└── PasswordChecksBusy   busy, of rowmill.web.login
"""

import rowmill as rm


class WrongLogin(rm.PermanentError):
    """The user or the password is wrong, or the account is closed. It is not said which."""

    code = "wrong_login"

    def __init__(self) -> None:
        super().__init__("the email or the password is wrong")


class LoginsBlocked(rm.TransientError):
    """Too many attempts failed, for this user or from this address."""

    code = "too_many_logins"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, round(seconds))
        """How long to wait."""
        super().__init__(f"too many logins failed: try again in {self.seconds} s")


class EmailTaken(rm.PermanentError):
    """Another user has this email."""

    code = "email_taken"


class EmailRefused(rm.PermanentError):
    """It does not look like an email."""

    code = "email_refused"


class PasswordRefused(rm.PermanentError):
    """The password is too short, too long, or the email."""

    code = "password_refused"


class AccountMissing(rm.PermanentError):
    """There is no such user."""

    code = "no_such_user"


class LastAdministrator(rm.PermanentError):
    """Without this user nobody could administrate."""

    code = "last_administrator"


class TokenMissing(rm.PermanentError):
    """There is no such token, or it is somebody else's."""

    code = "no_such_token"


class TooManyTokens(rm.PermanentError):
    """The user has as many tokens as one may have."""

    code = "too_many_tokens"
