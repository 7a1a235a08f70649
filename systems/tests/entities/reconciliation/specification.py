"""The specification's own schemas and examples, where somebody has them.

They are not part of this repository. RECONCILIATION_SPECS names the folder `0.2` of a checkout of
https://github.com/reconciliation-api/specs, and every answer of these tests is held against them too.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

FOLDER = os.environ.get("RECONCILIATION_SPECS")
needs_the_specification = pytest.mark.skipif(FOLDER is None, reason="RECONCILIATION_SPECS names no checkout")


@cache
def schemas() -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in (_folder() / "schemas").glob("*.json")}


@cache
def validator(name: str) -> Draft7Validator:
    known = [DRAFT7.create_resource(schema) for schema in schemas().values() if "$id" in schema]
    registry: Registry[Any] = Registry().with_resources((each.id() or "", each) for each in known)
    return Draft7Validator(schemas()[name], registry=registry)


def examples(kind: str, *, valid: bool) -> dict[str, Any]:
    found = sorted((_folder() / "examples" / kind / ("valid" if valid else "invalid")).glob("*.json"))
    assert found, f"no examples of {kind} in {_folder()}"
    return {path.stem: json.loads(path.read_text("utf-8")) for path in found}


def _folder() -> Path:
    assert FOLDER is not None
    return Path(FOLDER)
