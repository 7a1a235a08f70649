"""Nothing that comes out of a database, a file or the environment is turned into code or into objects of any class."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rowmill

SOURCE = Path(rowmill.__file__).parent
MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle", "yaml", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
METHODS = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "code.interact"}
TYPES = {"PickleType"}


def dangers(tree: ast.AST) -> Iterator[str]:
    """What makes code, or objects of any class, out of data."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (f"line {node.lineno}: import {n.name}" for n in names if n.name.split(".")[0] in MODULES)
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                yield f"line {node.lineno}: from {module} import …"
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                yield f"line {node.lineno}: {name}(…)"
            case ast.Call(func=ast.Attribute() as function) if ast.unparse(function) in METHODS:
                yield f"line {node.lineno}: {ast.unparse(function)}(…)"
            case ast.Call(keywords=keywords) if any(
                k.arg == "shell" and not (isinstance(k.value, ast.Constant) and k.value.value is False)
                for k in keywords
            ):
                yield f"line {node.lineno}: shell=…"
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in TYPES:
                yield f"line {node.lineno}: {name}"


def test_the_source_makes_nothing_but_data_of_data() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    found = [
        f"{file.relative_to(SOURCE)}, {danger}" for file in files for danger in dangers(ast.parse(file.read_text()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from marshal import loads",
        "import yaml.constructor",
        "eval(row.code)",
        "exec(text)",
        "os.system(command)",
        "subprocess.run(command, shell=True)",
        "Column('x', sa.PickleType)",
    ],
)
def test_it_would_be_noticed(code: str) -> None:
    assert len(list(dangers(ast.parse(code)))) == 1
