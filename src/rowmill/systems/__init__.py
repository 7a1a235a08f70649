"""For those who write a system: an application on Rowmill with tables, commands and pages of its own.

A system is a package with an entry point in the group `rowmill.systems`:

    [project.entry-points."rowmill.systems"]
    invoices = "invoices.commands:app"      # a typer.Typer

Once it is installed, `rowmill systems invoices …` runs its commands. `rowmill.systems.commands` has what they share,
`rowmill.systems.revisions` runs the Alembic revisions of its tables (needs `rowmill[alembic]`).
"""

from rowmill.systems.system import System, migrate

__all__ = ["System", "migrate"]
