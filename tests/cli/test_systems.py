"""`rowmill systems` finds what is installed by entry points."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rowmill.cli.main import run

COMMANDS = """
import typer

app = typer.Typer(help="Invoices that pay themselves.")

@app.command()
def pay(amount: int) -> None:
    print(f"paid {amount}")

@app.command()
def refuse() -> None:
    raise ValueError("no money")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a distribution with one system on the path."""

    def install(name: str, code: str) -> None:
        (tmp_path / f"{name}_commands.py").write_text(code)
        metadata = tmp_path / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[rowmill.systems]\n{name} = {name}_commands:app\n")
        monkeypatch.delitem(sys.modules, f"{name}_commands", raising=False)

    monkeypatch.syspath_prepend(str(tmp_path))
    return install


def test_a_system_of_anybody_runs(install: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]) -> None:
    install("invoices", COMMANDS)

    assert run(["systems", "invoices", "pay", "7"]) == 0
    assert capsys.readouterr().out == "paid 7\n"
    assert run(["systems", "--help"]) == 0
    assert "Invoices that pay themselves." in capsys.readouterr().out


def test_a_system_that_cannot_be_loaded_says_so_and_hides_no_other(
    install: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("invoices", COMMANDS)
    install("broken", "import there_is_no_such_module")

    assert run(["systems", "broken", "work", "--fast"]) == 2
    assert "there_is_no_such_module" in capsys.readouterr().err
    assert run(["systems", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Invoices that pay themselves." in shown
    assert "broken" in shown
    assert run(["systems", "invoices", "pay", "8"]) == 0


def test_a_system_that_is_not_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["systems", "invoices"]) == 2
    said = capsys.readouterr().err
    assert "there is no system invoices" in said
    assert "rowmill-systems" in said


def test_other_commands_do_not_load_systems(
    install: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("invoices", COMMANDS)

    assert run(["--help"]) == 0
    assert run(["stats", "--help"]) == 0
    assert "invoices_commands" not in sys.modules
