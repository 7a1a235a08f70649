"""Which package may import which: lower layers, itself, and the few exceptions named here."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "rowmill"

LAYERS = (  # from top to bottom
    {"__main__"},
    {"systems", "cli", "admin", "integrations", "demo", "web"},
    {"errors", "testing", "typing"},
    {"mill"},
    {"maintenance", "doctor"},
    {"adopt", "limits", "outbox", "reconcile", "schedules", "worker"},
    {"mill_port"},
    {"operator"},
    {"observe"},
    {"store"},
    {"model"},
)
SIDEWAYS = {("cli", "demo"), ("systems", "cli"), ("systems", "integrations"), ("systems", "web")}
MAY_IMPORT_THE_ROOT = {"cli", "demo", "integrations", "testing", "web"}
THE_ROOT_MAY_NOT_IMPORT = {"cli", "admin", "systems", "integrations", "web"}

ROOT = "rowmill"
LAYER_OF = {package: depth for depth, packages in enumerate(LAYERS) for package in packages}


def complaint(importer: str, imported: str) -> str | None:
    """Why this package may not import that one; None: it may."""
    if importer == imported:
        return None
    for package in (importer, imported):
        if package != ROOT and package not in LAYER_OF:
            return f"{package} has no layer: name it in LAYERS"
    if importer == ROOT:
        return "the root may not import it" if imported in THE_ROOT_MAY_NOT_IMPORT else None
    if imported == ROOT:
        return None if importer in MAY_IMPORT_THE_ROOT else "it may not import the package root"
    if LAYER_OF[importer] < LAYER_OF[imported] or (importer, imported) in SIDEWAYS:
        return None
    side_or_up = "beside" if LAYER_OF[importer] == LAYER_OF[imported] else "above"
    return f"{imported} is {side_or_up} {importer}"


def package_of(module: str) -> str:
    """rowmill.store.claim → store; rowmill → rowmill."""
    return module.split(".")[1] if "." in module else module


def module_name(path: Path) -> str:
    parts = (ROOT, *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source: str, module: str, is_package: bool) -> Iterator[tuple[int, str]]:
    """Line and module of every import of ours, wherever it stands: in functions and for typing as well."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = module.split(".")
                kept = here[: len(here) - node.level + is_package]
                base = ".".join([*kept, base] if base else kept)
            # "from rowmill import store" names a package of ours, "from rowmill import Mill" the root.
            from_root = [f"{ROOT}.{alias.name}" if alias.name in LAYER_OF else ROOT for alias in node.names]
            names = from_root if base == ROOT else [base]
        else:
            continue
        for name in names:
            if name == ROOT or name.startswith(f"{ROOT}."):
                yield node.lineno, name


def findings(source: str, module: str, is_package: bool = False) -> list[str]:
    importer = package_of(module)
    return [
        f"{module}, line {line}, imports {name}: {why}"
        for line, name in imported_modules(source, module, is_package)
        if (why := complaint(importer, package_of(name)))
    ]


def test_every_module_imports_only_what_its_layer_allows() -> None:
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        found += findings(path.read_text(), module_name(path), path.name == "__init__.py")

    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rowmill.model.lease", "import rowmill.store.claim"),
        ("rowmill.model.lease", "from ..store import claim"),
        ("rowmill.model.lease", "from .. import store"),
        ("rowmill.store.claim", "from rowmill import worker"),
        ("rowmill.store.claim", "from rowmill import Mill"),
        ("rowmill.store.claim", "if TYPE_CHECKING:\n    from rowmill.mill import Mill"),
        ("rowmill.worker.loop", "def run():\n    from rowmill.cli.main import main"),
        ("rowmill.operator.rescue", "from rowmill.worker.loop import Loop"),
        ("rowmill.observe.events", "from rowmill.worker.loop import Loop"),
        ("rowmill.admin.app", "from rowmill.cli.main import main"),
        ("rowmill.admin.app", "from rowmill import Mill"),
        ("rowmill", "from rowmill.cli.main import main"),
        ("rowmill.web.site", "from rowmill.cli.main import main"),
        ("rowmill.helpers", "from rowmill.model import Lease"),
    ],
)
def test_a_forbidden_import_is_found(module: str, source: str) -> None:
    assert len(findings(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("rowmill.store.claim", "import sqlalchemy\nfrom rowmill.model.lease import Lease"),
        ("rowmill.store.claim", "from .statements import CLAIM\nfrom ..model import Lease"),
        ("rowmill.worker.loop", "from rowmill.observe.events import Event"),
        ("rowmill.cli.main", "from rowmill import Mill, store"),
        ("rowmill", "from rowmill.mill import Mill\nfrom rowmill.demo import run"),
    ],
)
def test_an_allowed_import_is_not(module: str, source: str) -> None:
    assert findings(source, module) == []


def test_relative_imports_of_a_package_start_at_the_package_itself() -> None:
    assert findings("from .claim import claim", "rowmill.store", is_package=True) == []
    assert len(findings("from ..worker import loop", "rowmill.store", is_package=True)) == 1
