"""The system: its mill, queue, tables, salts and providers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial

import sqlalchemy as sa

import rowmill as rm
from rowmill import systems
from rowmill_systems.companies import processing, queue
from rowmill_systems.companies.logs import EventLog
from rowmill_systems.companies.migrations import revisions
from rowmill_systems.companies.models import CompaniesTables, tables_of
from rowmill_systems.companies.providers.open import open_providers
from rowmill_systems.companies.providers.port import CompanyProvider
from rowmill_systems.companies.runs import (
    FleetBudget,
    OpenProviders,
    RunInProgress,
    StandingRuns,
    begin_run,
    declare_fleet_limit,
)
from rowmill_systems.companies.salts import Salts, check_salts, find_salts
from rowmill_systems.companies.settings import CompaniesSettings
from rowmill_systems.companies.temp_id_filling import fill_temp_ids
from rowmill_systems.companies.write_back import OnResolved, ResolvedName


class Companies:
    """A database of names that wait for their companies, and the providers that know companies.

    `providers` replace those of the settings: a list, or a function that opens them for each run.
    """

    revisions = revisions

    def __init__(
        self, settings: CompaniesSettings, *, providers: Sequence[CompanyProvider] | OpenProviders | None = None
    ) -> None:
        self.settings = settings
        self.mill = rm.Mill(settings.database_url)
        self.tables: CompaniesTables = tables_of(self.mill.url.get_backend_name())
        self.queue: rm.Queue[rm.Record] = queue.declare(self.mill, self.tables, settings)
        self.log = EventLog(structlog=settings.structlog)
        self._providers = partial(open_providers, settings) if providers is None else providers
        self._callbacks: list[OnResolved] = []
        self._users = 0
        self._fleet_limit = declare_fleet_limit(self.mill, settings.eqc_run_budget)
        self.standing = StandingRuns(lambda until: self.begin_run(until))
        self.batch_size = settings.enrichment_batch_size
        processing.handle(self, self.batch_size)

    @cached_property
    def salts(self) -> Salts:
        """The secrets of temporary ids. Raises SaltMissing if there are none, with what to do."""
        return find_salts(self.settings, self.mill.url)

    @property
    def engine(self) -> sa.Engine:
        """An engine for code without an event loop. On PostgreSQL it needs psycopg."""
        return self.mill.store.sync_engine

    def begin_run(self, until: float | None = None) -> RunInProgress:
        """Return a new run, with all of its calls left. `until`, on the monotonic clock, is for one that goes on: it
        shares the calls of an hour with all others of its kind."""
        budget = None if until is None else FleetBudget(self.settings.eqc_run_budget, self._fleet_limit)
        return begin_run(self.settings, self._providers, budget=budget, until=until)

    def set_batch_size(self, size: int) -> None:
        """Set how many requests a worker that starts from now on takes at a time."""
        if size != self.batch_size:
            processing.handle(self, size)
            self.batch_size = size

    def on_resolved(self, callback: OnResolved) -> OnResolved:
        """Call this for each resolution, in the transaction that marks its request done."""
        self._callbacks.append(callback)
        return callback

    def call_back(self, connection: sa.Connection, resolutions: Sequence[ResolvedName]) -> None:
        """Call what was registered with `on_resolved`. One that raises is logged by the type of its error."""
        for callback in self._callbacks:
            for resolution in resolutions:
                try:
                    with connection.begin_nested():
                        callback(connection, resolution)
                except Exception as error:
                    if isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated:
                        raise
                    self.log.warning(
                        "company_callback_failed", request=resolution.request_id, code=type(error).__name__
                    )

    # served by: ix_enrichment_requests_name
    def call_back_for(self, connection: sa.Connection, name: str, company_id: str) -> None:
        """Call what was registered with `on_resolved` for the requests of a name that are resolved to this company."""
        c = self.tables.requests.c
        wanted = sa.select(
            c.id, c.raw_name, c.normalized_name, c.temp_id, c.resolved_company_id, c.resolved_by, c.confidence
        ).where(c.normalized_name == name, c.resolved_company_id == company_id)
        if self._callbacks:
            self.call_back(connection, [ResolvedName(*row, None) for row in connection.execute(wanted)])

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connect, and check that temporary ids are still made with the same salt.

        It may be entered several times, as by a server and the worker beside it; the last one to leave closes it.
        """
        async with self.mill.opened():
            if not self._users:
                await self.check_salts()
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if not self._users:
                    self.standing.close()

    async def check_salts(self) -> None:
        """Raise SaltMissing or SaltMismatch if temporary ids would not be what they were."""
        salts = self.salts
        await self.mill.run(lambda connection: check_salts(connection, self.tables, salts))

    async def migrate(self) -> None:
        """Bring the tables to this version. Requests of before get their temporary ids, if the salt is known."""
        await systems.migrate(self)
        try:
            salts = self.salts
        except rm.errors.BadRequest:
            return  # a migration does not need the secret; the next run fills them in
        await self.check_salts()
        while await self.mill.run(lambda connection: fill_temp_ids(connection, self.tables, salts)):
            pass
