"""What processes of the tests import, in the process that they are forked from. Nothing here may start a thread."""

import alembic.command
import asyncpg
import fastapi
import httpx2
import psycopg
import uvicorn
import uvloop

import rowmill.cli.main
import rowmill.store.postgres.store
import rowmill.store.sqlite.store
import rowmill.web
import rowmill_systems.companies.commands.main
import rowmill_systems.companies.companies
import rowmill_systems.entities.commands.main
import rowmill_systems.entities.entities
import rowmill_systems.intake.commands
import rowmill_systems.intake.intake
from rowmill_systems.entities.kb.base import open_knowledge_base

# The one that ships is built once per process, for half a second.
open_knowledge_base(None).close()

__all__ = ["alembic", "asyncpg", "fastapi", "httpx2", "psycopg", "rowmill", "rowmill_systems", "uvicorn", "uvloop"]
