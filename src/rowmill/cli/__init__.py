"""The command line: Typer commands, output for people or --json."""
