"""The command line: Typer commands, with output for people or as JSON."""
