"""The table of entities, declared as a queue of three stages."""

import rowmill as rm
from rowmill_systems.entities.models import Entity, Tables
from rowmill_systems.entities.settings import BACKOFF_SECONDS, EntitiesSettings


def declare(mill: rm.Mill, tables: Tables, settings: EntitiesSettings) -> rm.Queue[Entity]:
    return mill.queue(
        tables.entity,
        columns=rm.Columns(
            state="enrichment_status",
            attempts="enrichment_retry_count",
            available_at="enrichment_available_at",
            error="enrichment_error",
            finished_at="enriched_at",
            created_at="created_at",
        ),
        states=rm.States(done="COMPLETE", dead="FAILED"),
        stages=[
            rm.Stage("link", ready="PENDING", running="LINKING", waiting="LINK_FAILED"),
            rm.Stage("enrich", ready="LINKED", running="ENRICHING", waiting="ENRICH_FAILED"),
            rm.Stage("save", ready="ENRICHED", running="SAVING"),
        ],
        order=rm.Order(by=("created_at",)),
        retry=rm.Retry(attempts=settings.max_attempts, backoff=rm.steps(*BACKOFF_SECONDS)),
        lease=120.0,
        counts="failures",
        finished_on="done",
    )
