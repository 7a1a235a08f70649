"""Is the server there? For anybody, and without any data."""

from fastapi import APIRouter

from rowmill_systems.knowledge.web.asking import GivenKnowledge
from rowmill_systems.parts.fields import Health

router = APIRouter(tags=["service"])


@router.get("/health")
async def health(knowledge: GivenKnowledge) -> Health:
    """Check that the server and its database answer."""
    await knowledge.mill.run(lambda connection: connection.exec_driver_sql("SELECT 1").close(), write=False)
    return Health()
