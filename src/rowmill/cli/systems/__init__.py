"""`rowmill systems`: what ships on Rowmill."""

import typer

from rowmill.cli.help import MORE
from rowmill.cli.systems import entities, intake


def register(app: typer.Typer) -> None:
    systems = typer.Typer(no_args_is_help=True, help="Systems that stand on Rowmill, ready to run.")
    intake.register(systems)
    entities.register(systems)
    app.add_typer(systems, name="systems", rich_help_panel=MORE)
