"""An asset check on how long the oldest ready row has waited."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import sqlalchemy as sa

from rowmill.integrations.dagster.deadline import ask, call_in_thread
from rowmill.integrations.dagster.resource import KEY, mill_of
from rowmill.integrations.mills import as_names, chosen_queues
from rowmill.mill import Mill
from rowmill.model.duration import Duration, in_seconds
from rowmill.operator.activity import oldest_ready

ASK_SECONDS = 60.0


def oldest_ready_check(
    *,
    asset: dg.AssetKey | dg.AssetSpec | dg.AssetsDefinition | str,
    max_age: Duration,
    queue: str | Sequence[str] | None = None,
    name: str = "oldest_ready_row",
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
    resource: str = KEY,
    description: str | None = None,
) -> dg.AssetChecksDefinition:
    """Return a check that fails if a row that could be worked on has waited for longer than `max_age`.

    That is the sign that nobody works the queue off, whatever the reason. If the database does not answer, the check
    itself ends with an error: it does not pass.
    """
    most, names = in_seconds(max_age), as_names(queue)

    @dg.asset_check(
        asset=asset.key if isinstance(asset, dg.AssetSpec) else asset,
        name=name,
        description=description,
        required_resource_keys={resource},
    )
    def check(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        age = oldest_age(mill_of(getattr(context.resources, resource)), names)
        metadata: dict[str, Any] = {"max_age_seconds": most}
        if age is not None:
            metadata["oldest_ready_seconds"] = age
        return dg.AssetCheckResult(
            passed=age is None or age <= most,
            severity=severity,
            metadata=metadata,
            description="no row is ready" if age is None else f"the oldest ready row has waited for {age:,.0f} seconds",
        )

    return check


def oldest_age(mill: Mill, names: Sequence[str] | None) -> float | None:
    """Return how many seconds the oldest ready row of these queues has waited; None if there is none."""

    def ages(connection: sa.Connection) -> float | None:
        found = [oldest_ready(connection, mill.store.sql(queue)) for queue in chosen_queues(mill, names)]
        return max((age for age in found if age is not None), default=None)

    return call_in_thread(lambda: ask(mill, ages, ASK_SECONDS))
