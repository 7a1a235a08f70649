"""With the specification's own schemas and examples."""

import json

import pydantic
import pytest
from jsonschema import ValidationError

from systems.tests.entities.reconciliation import specification
from systems.tests.entities.reconciliation.served import served
from systems.tests.entities.reconciliation.shapes import SHAPES, check

pytestmark = specification.needs_the_specification


def test_there_is_a_schema_for_each_kind_of_answer_and_it_can_refuse() -> None:
    for name in SHAPES:
        with pytest.raises(ValidationError):
            specification.validator(name).validate({"q0": []} if "batch" in name else {"result": 1, "rows": 1})


@pytest.mark.parametrize("name", ["reconciliation-result-batch", "data-extension-response"])
def test_what_it_calls_invalid_is_refused_by_our_shapes_as_well(name: str) -> None:
    for example in specification.examples(name, valid=False).values():
        with pytest.raises(pydantic.ValidationError):
            SHAPES[name].model_validate(example)


async def test_its_batches_are_understood() -> None:
    examples = specification.examples("reconciliation-query-batch", valid=True)
    async with served() as harness:
        for name, batch in examples.items():
            specification.validator("reconciliation-query-batch").validate(batch)
            for answer in (await harness.form(queries=batch), await harness.get(queries=json.dumps(batch))):
                assert answer.status_code == 200, (name, answer.text)
                assert list(check("reconciliation-result-batch", answer.json())) == list(batch), name


async def test_what_it_calls_no_batch_is_refused() -> None:
    async with served() as harness:
        for name, batch in specification.examples("reconciliation-query-batch", valid=False).items():
            answer = await harness.form(queries=batch)
            assert (answer.status_code, answer.json()["code"]) == (400, "unreadable"), name


async def test_its_requests_for_properties_are_understood() -> None:
    async with served() as harness:
        for name, asked in specification.examples("data-extension-query", valid=True).items():
            answer = await harness.form(extend=asked)
            assert answer.status_code == 200, (name, answer.text)
            said = check("data-extension-response", answer.json())
            assert [each["id"] for each in said["meta"]] == [each["id"] for each in asked["properties"]]
            assert list(said["rows"]) == asked["ids"]
            assert all(list(row) == [each["id"] for each in asked["properties"]] for row in said["rows"].values())
