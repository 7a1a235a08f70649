"""Write a plan as an Alembic revision, or as SQL."""

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rowmill.adopt.steps import MigrationPlan, MigrationStep, StepKind
from rowmill.model.errors import BadRequest, one_line

OWN_BRANCH = "rowmill"
"""Label of the Alembic branch for Rowmill's own tables."""


@dataclass(frozen=True, slots=True)
class RevisionPlace:
    """The file of a revision, and the revision that it follows."""

    file: Path
    revision: str
    after: str | None


def as_sql(plan: MigrationPlan, postgres: bool, *, brief: bool = False) -> str:
    """Return the migration for psql or sqlite3, with a comment per step. With `brief`, without the statements that
    create Rowmill's own tables."""
    lines: list[str] = []
    if not postgres:
        lines.append("BEGIN IMMEDIATE;")
    for change in plan.changes:
        lines.append(f"-- {one_line(change.what)}")
        if change.part is StepKind.OWN and brief:
            lines.append("-- (rowmill adopt --sql prints the statements)")
            continue
        if change.part is StepKind.OWN and postgres:
            lines += ["BEGIN;", *(f"{statement};" for statement in change.statements), "COMMIT;"]
            continue
        if change.fill is not None and postgres:
            lines.append("-- (rowmill adopt --apply does this in batches)")
        if change.alone:
            lines.append("-- (not inside a transaction)")
        lines += [f"{statement};" for statement in change.statements]
    if not postgres:
        lines.append("COMMIT;")
    return "\n".join(lines)


def as_revision(plan: MigrationPlan, table: str, place: RevisionPlace) -> str:
    """Return the text of a revision. It imports Rowmill, like the application does."""
    return "\n".join(
        [
            f'"""Make {_in_docstring(table)} a work queue of Rowmill\'s.',
            "",
            f"Revision ID: {place.revision}",
            f"Revises: {place.after or ''}",
            '"""',
            "",
            "import sqlalchemy as sa",
            "from alembic import op",
            "",
            "from rowmill.integrations import alembic as rowmill_alembic",
            "",
            f"revision = {place.revision!r}",
            f"down_revision = {place.after!r}",
            "branch_labels = None",
            "depends_on = None",
            "",
            "",
            "def upgrade() -> None:",
            *(_body(plan) or ["    pass"]),
            "",
            "",
            "def downgrade() -> None:",
            *([f"    {_execute(text)}" for change in reversed(plan.changes) for text in change.undo] or ["    pass"]),
            "",
        ]
    )


def _in_docstring(name: str) -> str:
    """Escape a name for use inside a docstring."""
    return one_line(name).replace("\\", "\\\\").replace('"', '\\"')


def _body(plan: MigrationPlan) -> list[str]:
    # Other databases may lack Rowmill's own tables even if this one has them; the trigger needs them.
    own = ["    rowmill_alembic.upgrade(op)"] if plan.changes else []
    return own + [line for change in plan.changes if change.part is not StepKind.OWN for line in _step(change)]


def _step(change: MigrationStep) -> Iterator[str]:
    yield f"    # {one_line(change.what)}"
    if change.fill is not None:
        fill = change.fill
        yield "    rowmill_alembic.fill("
        yield "        op,"
        for name in ("name", "schema", "sets", "where", "walk"):
            yield f"        {name}={getattr(fill, name)!r},"
        yield "    )"
    elif change.alone:
        yield "    with op.get_context().autocommit_block():"
        yield from (f"        {_execute(text)}" for text in change.statements)
    else:
        yield from (f"    {_execute(text)}" for text in change.statements)


def _execute(statement: str) -> str:
    # CONCURRENTLY waits for transactions such as the revision's own: a downgrade does without it.
    plain = statement.replace("DROP INDEX CONCURRENTLY ", "DROP INDEX ") if "CREATE" not in statement else statement
    return f"op.execute(sa.text({plain.replace(':', chr(92) + ':')!r}))"


def find_place(target: Path, table: str, head: str | None) -> RevisionPlace:
    """Find the place for the path that the caller gave: an Alembic folder, its versions folder, a project, or a
    file."""
    revision = uuid.uuid4().hex[-12:]
    name = f"{revision}_rowmill_adopt_{re.sub(r'[^a-z0-9]+', '_', table.lower()).strip('_')}.py"
    folder = target.parent if target.suffix == ".py" else target
    script = _script_folder(folder)
    if script is None:
        if target.suffix != ".py":
            raise BadRequest(
                f"{target} is no Alembic environment: it has neither env.py nor alembic.ini. "
                "Make one with: alembic init, or name a file that ends in .py"
            )
        return RevisionPlace(target, revision, head)
    file = target if target.suffix == ".py" else script / "versions" / name
    return RevisionPlace(file, revision, head or _head(script))


def _script_folder(folder: Path) -> Path | None:
    """Return the folder that holds env.py."""
    for candidate in (folder, folder.parent):
        if (candidate / "env.py").is_file():
            return candidate
    ini = folder / "alembic.ini"
    if not ini.is_file():
        return None
    _, config = _alembic()
    location = config(str(ini)).get_main_option("script_location")
    return folder / location if location else None


def _head(script: Path) -> str | None:
    """Return the revision to follow: the only head that is not in Rowmill's own branch."""
    directory, _ = _alembic()
    scripts = directory(str(script))
    heads = [head for head in scripts.get_heads() if OWN_BRANCH not in scripts.get_revision(head).branch_labels]
    if len(heads) > 1:
        raise BadRequest(f"there are several heads: {', '.join(heads)}. Merge them, or name one: --head REVISION")
    return heads[0] if heads else None


def _alembic() -> tuple[Any, Any]:
    try:
        from alembic.config import Config
        from alembic.script import ScriptDirectory
    except ImportError as error:
        raise BadRequest("writing a revision needs Alembic. Run: pip install 'rowmill[alembic]'") from error
    return ScriptDirectory, Config
