"""`rowmill systems knowledge users …`"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rowmill.systems.commands import JsonOption, UrlOption, UsageError, YesOption, ask_to_change, emit, table
from rowmill_systems.knowledge.commands.loading import load, run

if TYPE_CHECKING:
    from rowmill_systems.knowledge.accounts.account import Account
    from rowmill_systems.knowledge.accounts.roles import KnowledgeRole
    from rowmill_systems.knowledge.knowledge import Knowledge

users = typer.Typer(no_args_is_help=True, help="Who may log in, and what they may do.")
EmailArgument = Annotated[str, typer.Argument(metavar="EMAIL")]
StdinOption = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]
ROLES = "viewer searches, editor also adds and deletes documents, administrator does everything."
RoleOption = Annotated[str | None, typer.Option("--role", metavar="ROLE", help=ROLES)]


def add(
    email: EmailArgument,
    role: RoleOption = None,
    superuser: Annotated[bool, typer.Option("--superuser", help="The same as --role administrator.")] = False,
    password_stdin: StdinOption = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Add a user. Asks for the password.

    \b
    Example:
      rowmill systems knowledge users add ann@example.org --superuser
      echo "$PASSWORD" | rowmill systems knowledge users add bob@example.org --role editor --password-stdin
    """
    from rowmill_systems.knowledge.accounts.users import create_account

    if superuser and role not in (None, "administrator"):
        raise UsageError("--superuser is the role administrator: leave --role away")
    wanted = find_role("administrator" if superuser else role or "viewer")
    password = read_password(password_stdin)
    account = run(load(database_url), lambda knowledge: create_account(knowledge, email, password, role=wanted))
    emit({"id": account.id, "email": account.email, "role": account.role}, json, f"{account.email}: {account.role}")


def show_all(database_url: UrlOption = None, json: JsonOption = False) -> None:
    """List users.

    \b
    Example:
      rowmill systems knowledge users list
    """
    from rowmill_systems.knowledge.accounts.users import list_accounts

    async def read(knowledge: "Knowledge") -> "list[Account]":
        found: list[Account] = []
        page = await list_accounts(knowledge)
        while page.next is not None:
            found += page.accounts
            page = await list_accounts(knowledge, after=page.next)
        return [*found, *page.accounts]

    found = run(load(database_url), read)
    rows = [(each.email, each.role, "yes" if each.is_active else "no", each.last_login_at) for each in found]
    emit({"users": found}, json, lambda: table(("email", "role", "active", "last login"), rows))


def change(
    email: EmailArgument,
    role: RoleOption = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Whether the user may log in. --inactive logs out.")
    ] = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Change what a user may do.

    \b
    Example:
      rowmill systems knowledge users change bob@example.org --role editor
      rowmill systems knowledge users change bob@example.org --inactive
    """
    from rowmill_systems.knowledge.accounts.users import change_account, find_by_email

    if role is None and active is None:
        raise UsageError("say what to change: --role, --active or --inactive")
    wanted = None if role is None else find_role(role)

    async def work(knowledge: "Knowledge") -> "Account":
        account = await find_by_email(knowledge, email)
        return await change_account(knowledge, account.id, role=wanted, is_active=active)

    account = run(load(database_url), work)
    emit(account, json, f"{account.email}: {account.role}, {'active' if account.is_active else 'inactive'}")


def password(
    email: EmailArgument,
    password_stdin: StdinOption = False,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Set the password of a user, who is then logged out everywhere. Tokens end too.

    \b
    Example:
      rowmill systems knowledge users password ann@example.org
    """
    from rowmill_systems.knowledge.accounts.users import find_by_email, set_password

    given = read_password(password_stdin)

    async def work(knowledge: "Knowledge") -> "Account":
        account = await find_by_email(knowledge, email)
        await set_password(knowledge, account.id, given)
        return account

    account = run(load(database_url), work)
    emit({"id": account.id, "email": account.email}, json, f"{account.email} has a new password")


def token(
    email: EmailArgument,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What it is for.")] = "",
    days: Annotated[
        float | None, typer.Option("--days", metavar="N", min=0.01, help="How long it holds. Otherwise until revoked.")
    ] = None,
    database_url: UrlOption = None,
    json: JsonOption = False,
) -> None:
    """Make a token that a program logs in with as this user, and print it. It is not shown again.

    \b
    Example:
      rowmill systems knowledge users token bot@example.org --name importer --days 90
    """
    from rowmill_systems.knowledge.accounts.tokens import TokenSummary, create_token
    from rowmill_systems.knowledge.accounts.users import find_by_email

    async def work(knowledge: "Knowledge") -> tuple[str, TokenSummary]:
        account = await find_by_email(knowledge, email)
        return await create_token(knowledge, account.id, name, days=days)

    made, summary = run(load(database_url), work)
    emit({"id": summary.id, "token": made, "expires_at": summary.expires_at}, json, made)


def delete(
    email: EmailArgument, yes: YesOption = False, database_url: UrlOption = None, json: JsonOption = False
) -> None:
    """Delete a user, with all logins and tokens. What the user added stays.

    \b
    Example:
      rowmill systems knowledge users delete bob@example.org
    """
    from rowmill_systems.knowledge.accounts.users import delete_account, find_by_email

    account = run(load(database_url), lambda knowledge: find_by_email(knowledge, email))
    if not yes:
        ask_to_change(f"the user {account.email}, who will be deleted")
    run(load(database_url), lambda knowledge: delete_account(knowledge, account.id))
    emit({"deleted": account.id}, json, f"deleted {account.email}")


def find_role(given: str) -> "KnowledgeRole":
    """Return the role of this name. Raises UsageError that lists them."""
    from rowmill_systems.knowledge.accounts.roles import KnowledgeRole

    known = {str(role): role for role in KnowledgeRole}
    if given not in known:
        raise UsageError(f"there is no role {given}. There are: {', '.join(known)}")
    return known[given]


def read_password(from_stdin: bool) -> str:
    """Read a password from standard input, or ask for it twice without showing it."""
    if from_stdin:
        return sys.stdin.readline().rstrip("\r\n")
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask for the password on. Give it with --password-stdin")
    asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    return asked


for command, name in (
    (add, "add"), (show_all, "list"), (change, "change"), (password, "password"), (token, "token"), (delete, "delete"),
):  # fmt: skip
    users.command(name)(command)
