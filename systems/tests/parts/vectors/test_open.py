"""A store of vectors by its URL, and what is said of a wrong one."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

import rowmill as rm
from rowmill_systems.parts.vectors import open_vectors
from rowmill_systems.parts.vectors.pgvector import PgVectors, for_asyncpg
from rowmill_systems.parts.vectors.qdrant import QdrantVectors
from rowmill_systems.parts.vectors.sqlite import SqliteVectors


def test_a_path_is_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("vectors.db", "./vectors.db", "sqlite:///vectors.db", f"sqlite:///{tmp_path}/vector%73.db"):
        store = open_vectors(url)
        assert isinstance(store, SqliteVectors)
        assert store._file.path == tmp_path / "vectors.db"
    assert list(tmp_path.iterdir()) == [], "nothing is touched before it is used"


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg", "postgresql+psycopg"])
def test_a_database(scheme: str) -> None:
    assert isinstance(open_vectors(f"{scheme}://user:word@host/vectors"), PgVectors)


def test_what_postgresql_does_not_know_is_left_out() -> None:
    plain, options = for_asyncpg(
        "postgresql+psycopg://u@h:6543/db?sslmode=require&channel_binding=require&connect_timeout=5"
        "&statement_cache_size=0&application_name=x"
    )
    assert plain == "postgresql://u@h:6543/db?sslmode=require"
    assert options == {"statement_cache_size": 0}
    assert for_asyncpg("postgresql+asyncpg://u@/db?host=/run/pg&ssl=require")[0] in (
        "postgresql://u@/db?host=%2Frun%2Fpg&sslmode=require",
        "postgresql://u@/db?sslmode=require&host=%2Frun%2Fpg",
    )


def test_a_server() -> None:
    assert isinstance(open_vectors("http://127.0.0.1:6333", api_key=SecretStr("key")), QdrantVectors)


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        (" ", "./vectors.db"),
        ("redis://planted-secret@host/x", "http://host:6333"),
        ("sqlite://", "sqlite:///vectors.db"),
        ("sqlite://planted/x.db", "sqlite:////var/lib/vectors.db"),
        ("sqlite:///x.db?planted=1", "sqlite:///vectors.db"),
        ("postgresql://planted:secret@host", "names no database"),
        ("http://planted:secret@host:6333", "Pass api_key"),
        ("http://host:6333?api-key=planted", "Pass api_key"),
        ("https://", "http://host:6333"),
        ("http://[planted", "can't be read"),
    ],
)
def test_a_wrong_url_is_refused_with_its_fix_and_not_shown(url: str, fix: str) -> None:
    with pytest.raises(rm.errors.DeclarationError) as raised:
        open_vectors(url)
    assert fix in str(raised.value)
    assert "planted" not in str(raised.value)


def test_a_key_that_no_header_can_carry_is_refused_and_not_shown() -> None:
    with pytest.raises(rm.errors.DeclarationError, match="spaces and line ends") as raised:
        open_vectors("https://host:6333", api_key=SecretStr("planted\n"))
    assert "planted" not in str(raised.value)


def test_without_the_packages_of_servers_a_file_is_opened_and_they_are_refused() -> None:
    script = (
        "import sys\n"
        "sys.modules['qdrant_client'] = sys.modules['asyncpg'] = None\n"
        "from rowmill_systems.parts.vectors import open_vectors\n"
        "open_vectors('./vectors.db')\n"
        "for url in ('http://host:6333', 'postgresql://host/db'):\n"
        "    try:\n"
        "        open_vectors(url)\n"
        "    except Exception as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "pip install 'rowmill-systems[qdrant]'" in done.stdout
    assert "pip install 'rowmill[postgres]'" in done.stdout
