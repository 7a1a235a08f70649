"""Files as an inventory: in the order of whole paths, however folders and files are named."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rowmill as rm
from rowmill import reconcile
from rowmill.reconcile.files import FileInventory

NO_STORE: Any = None
NAMES = st.text(alphabet="ab-./0é", min_size=1, max_size=6).filter(
    lambda text: all(part.strip(".") for part in text.split("/"))
)


async def walked(files: FileInventory) -> list[str]:
    return [key async for page in files.walk(NO_STORE) for key, _ in page]


def made(folder: Path, names: set[str]) -> list[str]:
    """Make these files, those that can be made beside the others."""
    there = []
    for name in sorted(names):
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
        there.append(name)
    return there


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(NAMES, max_size=25))
async def test_paths_come_in_the_order_of_their_bytes(
    tmp_path_factory: pytest.TempPathFactory, names: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("tree")
    there = made(folder, names)

    assert await walked(reconcile.files(folder)) == sorted(there)


async def test_a_folder_that_is_not_there_was_not_observed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await walked(reconcile.files(tmp_path / "gone"))
    with pytest.raises(FileNotFoundError):
        await reconcile.files(tmp_path / "gone").look(NO_STORE, ["a"])


async def test_an_empty_folder_may_be_a_disk_that_is_not_mounted(tmp_path: Path) -> None:
    assert await walked(reconcile.files(tmp_path)) == []
    with pytest.raises(rm.RowmillError, match="it gave 0 things and should have 1"):
        await walked(reconcile.files(tmp_path, expects=1))


async def test_a_second_look_sees_files_below_the_folder_only(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.pdf").write_text("four")
    (tmp_path / "outside.pdf").touch()
    os.symlink(tmp_path / "in", tmp_path / "in" / "deep" / "loop")
    files = reconcile.files(tmp_path / "in", suffix=".pdf")

    keys = ["a.pdf", "b.pdf", "deep", "../outside.pdf", str(tmp_path / "outside.pdf"), "deep/../a.pdf", "a.pdf/x.pdf"]
    rechecked = await files.look(NO_STORE, keys)
    assert list(rechecked) == ["a.pdf"]
    assert rechecked["a.pdf"]["size"] == 4
    assert await walked(files) == ["a.pdf"], "links to folders are not followed"
