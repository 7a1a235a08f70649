"""The guide to Django, in a project that Django makes, on both databases."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.docs.pages import ROOT, block_of
from tests.docs.transcript import plain_environment

pytest.importorskip("django")
pytestmark = [
    pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.empty_database, pytest.mark.xdist_group("django")
]  # fmt: skip
PAGE = "docs/guides/django.md"
TEXT = (ROOT / PAGE).read_text()
MODELS, ADDING, HANDLER = re.findall(r"^```py\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^    ((?:python|rowmill) .*?)(?: +#.*)?$", TEXT, re.MULTILINE)
SETTINGS = """
import os
import sqlalchemy

INSTALLED_APPS += ["news"]
url = sqlalchemy.make_url(os.environ["DATABASE_URL"])
if url.get_backend_name() == "postgresql":
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql", "NAME": url.database, "USER": url.username, "HOST": url.host,
        "PORT": url.port,
    }
"""


class Project:
    """A folder with a project of Django's and the worker of the guide."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        url = database_url.replace("postgresql:", "postgresql+psycopg:")
        self.url = url if "postgresql" in url else "sqlite:///db.sqlite3"
        self._environment = plain_environment() | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "DATABASE_URL": self.url
        }  # fmt: skip

    def run(self, command: str, typed: str = "") -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.folder, env=self._environment, input=typed, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"
        return done.stdout

    def rows(self) -> list[tuple[str, str | None, str]]:
        url = self.url.replace("sqlite:///", f"sqlite:///{self.folder}/")
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            found = connection.execute(sa.text("SELECT title, topic, state FROM news_article ORDER BY id"))
            rows = [(row.title, row.topic, row.state) for row in found]
        engine.dispose()
        return rows


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what Django makes for a new project, which is the same for every database."""
    folder = tmp_path_factory.mktemp("project")
    making = Project(folder, "sqlite:///db.sqlite3")
    making.run("python -m django startproject mysite .")
    making.run("python manage.py startapp news")
    with (folder / "mysite" / "settings.py").open("a") as settings:
        settings.write(SETTINGS)
    (folder / "news" / "models.py").write_text(MODELS)
    (folder / "worker.py").write_text(block_of(PAGE, "python"))
    return folder


@pytest.fixture
def project(new_project: Path, tmp_path: Path, database_url: str) -> Project:
    shutil.copytree(new_project, tmp_path, dirs_exist_ok=True)
    return Project(tmp_path, database_url)


def test_rows_of_a_model_are_worked_on(project: Project) -> None:
    *set_up, work = COMMANDS
    assert work == "rowmill work worker:mill"
    for command in set_up:
        project.run(command)
    adding = ADDING.replace("    order.save()\n", "")
    project.run("python manage.py shell", f"from news.models import Article\n{adding}\n\n")
    project.run("rowmill drain worker:mill")
    assert project.rows() == [("World cup final", "sports", "done")]

    worker = project.folder / "worker.py"
    worker.write_text(f"{worker.read_text()}\n{HANDLER}")
    again = 'Article.objects.create(title="World cup final"); Article.objects.create(title="Budget")'
    project.run("python manage.py shell", f"from news.models import Article\n{again}\n")
    project.run("rowmill drain worker:mill")
    assert [row[1:] for row in project.rows()] == [("sports", "done"), ("sports", "done"), ("news", "done")]


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_the_page_shows_the_sql_of_its_model(project: Project) -> None:
    project.run("python manage.py makemigrations news")
    made = project.run("python manage.py sqlmigrate news 0001")
    assert " ".join(block_of(PAGE, "sql").replace("(\n    ", "(").replace("\n);", ");").split()) in " ".join(
        made.split()
    )


def test_the_indexes_of_the_queue_are_there_after_a_change_of_the_model(project: Project) -> None:
    *set_up, _ = COMMANDS
    *of_django, of_rowmill = set_up
    for command in set_up:
        project.run(command)
    models = project.folder / "news" / "models.py"
    models.write_text(models.read_text().replace("max_length=50", "max_length=80"))
    for command in of_django:
        project.run(command)
    code = "4" if "sqlite" in project.url else "0"  # SQLite has lost the indexes, as the page says
    assert project.run(f"{of_rowmill} --check; echo exit $?").endswith(f"exit {code}\n")
    project.run(of_rowmill)
    project.run(f"{of_rowmill} --check")
