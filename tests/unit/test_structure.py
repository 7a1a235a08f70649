"""How the code is cut: one meaning per class name, a small package root, and few files per question."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.structure import HOPS, ROOT, SHARED_NAMES, Structure, main

pytestmark = pytest.mark.xdist_group("structure")
MOST_ROOT_NAMES = 30
MOST_HOPS = {"claim": 4, "settle": 5, "requeue": 4, "wake-up": 3, "retry": 1}


@pytest.fixture(scope="module")
def structure() -> Structure:
    """Measured in a process of its own: Python 3.11 fails to parse if it prints a traceback meanwhile, as the garbage
    collector may for tasks that other tests left behind."""
    printed = subprocess.run([sys.executable, "-m", "tools.structure", "--json"], cwd=ROOT, capture_output=True)
    assert printed.returncode == 0, printed.stderr.decode()
    return Structure(**json.loads(printed.stdout))


def test_a_class_name_of_the_engine_has_one_meaning(structure: Structure) -> None:
    assert structure.duplicates_within("rowmill") == {}


def test_the_package_root_is_small(structure: Structure) -> None:
    assert 0 < structure.root_names <= MOST_ROOT_NAMES


def test_the_files_of_each_question_exist_and_are_few(structure: Structure) -> None:
    assert structure.missing_hops == []
    assert {question: count for question, count in structure.hops.items() if count > MOST_HOPS[question]} == {}
    assert HOPS.keys() == MOST_HOPS.keys()


def test_a_tree_with_faults_is_measured_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine, systems = tmp_path / "src/rowmill", tmp_path / "systems/src/rowmill_systems"
    (engine / "store").mkdir(parents=True)
    systems.mkdir(parents=True)
    shared = next(iter(SHARED_NAMES))
    (engine / "__init__.py").write_text('__all__ = ["a", "b"]\n')
    (engine / "store/one.py").write_text(f"class Twice: ...\nclass {shared}: ...\n")
    (engine / "store/two.py").write_text(f"from rowmill.store.one import Twice as T\nclass {shared}: ...\n")
    (engine / "store/three.py").write_text("from rowmill.store import one, two\nclass Twice: ...\n")
    (systems / "four.py").write_text("import rowmill.store.two\nclass Twice: ...\n")

    main(["--json", "--root", str(tmp_path)])

    found = json.loads(capsys.readouterr().out)
    assert (found["store_modules"], found["store_modules_with_one_importer"]) == (3, [])
    assert list(found["duplicate_classes"]) == ["Twice"]
    assert len(found["duplicate_classes"]["Twice"]) == 3
    assert (found["root_names"], found["lines"]) == (2, {"rowmill": 7, "rowmill_systems": 2})
    assert "src/rowmill/worker/stage.py" in found["missing_hops"]

    (systems / "four.py").write_text("class Twice: ...\n")
    main(["--root", str(tmp_path)])

    text = capsys.readouterr().out
    assert "modules in store/: 3, of which 1 have exactly one importer\n  store/two.py" in text
    assert "class names defined more than once: 1\n  Twice: src/rowmill/store/one.py" in text
