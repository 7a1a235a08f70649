"""Companies in Dagster: a job that resolves waiting requests, a schedule and a sensor that start it.

    dagster dev -m rowmill_systems.companies.orchestration

It needs `rowmill[dagster]`. Both switches are read at every tick; the time table and the batch size when Dagster loads
this module.
"""

import dagster as dg
import sqlalchemy as sa

import rowmill as rm
from rowmill.integrations.dagster import backlog_sensor, drain_job, drain_schedule
from rowmill_systems.companies.settings import CompaniesSettings

SENSOR_SECONDS = 300
COUNT_SECONDS = 20
"""How long the database may take to count the pending requests."""


# A code server that only evaluates ticks imports no provider: what the functions need, they import themselves.


def process_company_lookup_queue(*, batch_size: int, plan_only: bool) -> object:
    """Resolve the requests that wait, or count them. Return what was done, in numbers."""
    from rowmill_systems.companies.service import CompanyEnrichmentService

    service = CompanyEnrichmentService.from_settings(CompaniesSettings())
    return service.process_lookup_queue(batch_size=batch_size, plan_only=plan_only)


def count_pending() -> int:
    """Return how many requests are pending."""
    from rowmill_systems.companies.lookup_queue import CAP, LookupQueue

    settings = CompaniesSettings()
    engine = rm.Mill(settings.database_url).store.sync_engine
    try:
        with engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.text(f"SET LOCAL statement_timeout = '{COUNT_SECONDS}s'"))
            most = max(CAP, settings.enrichment_queue_threshold + 1)
            return LookupQueue(connection, settings).get_queue_depth("pending", at_most=most)
    finally:
        engine.dispose()


def _schedule(settings: CompaniesSettings) -> dg.ScheduleDefinition:
    try:
        return drain_schedule(
            process_company_lookup_queue_job,
            name="async_enrichment_schedule",
            run_key="async_enrichment",
            cron=settings.enrichment_schedule_cron,
            timezone=settings.enrichment_schedule_timezone,
            enabled=lambda: CompaniesSettings().async_enrichment_enabled,
            default_status=dg.DefaultScheduleStatus.RUNNING,
            description="Starts the job every hour, unless WDH_ASYNC_ENRICHMENT_ENABLED is false.",
        )
    except dg.DagsterInvalidDefinitionError as error:
        raise rm.errors.BadRequest(
            f"{error} Correct WDH_ENRICHMENT_SCHEDULE_CRON or WDH_ENRICHMENT_SCHEDULE_TIMEZONE"
        ) from error


_settings = CompaniesSettings()

process_company_lookup_queue_job = drain_job(
    name="process_company_lookup_queue_job",
    op_name="process_company_lookup_queue_op",
    process=process_company_lookup_queue,
    batch_size=_settings.enrichment_batch_size,
    description="Looks up the company names that wait, and writes their ids back.",
)

async_enrichment_schedule = _schedule(_settings)

enrichment_queue_sensor = backlog_sensor(
    process_company_lookup_queue_job,
    name="enrichment_queue_sensor",
    pending=count_pending,
    threshold=lambda: CompaniesSettings().enrichment_queue_threshold,
    every=SENSOR_SECONDS,
    deadline=COUNT_SECONDS,
    enabled=lambda: CompaniesSettings().enrichment_sensor_enabled,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts the job when more than WDH_ENRICHMENT_QUEUE_THRESHOLD requests are pending, if "
    "WDH_ENRICHMENT_SENSOR_ENABLED is true.",
)

defs = dg.Definitions(
    jobs=[process_company_lookup_queue_job],
    schedules=[async_enrichment_schedule],
    sensors=[enrichment_queue_sensor],
)
