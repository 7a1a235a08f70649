"""How entities behaves. Read from the environment once, at the edge, and frozen."""

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

BATCH_SIZE = 50
MAX_ATTEMPTS = 3
BACKOFF_SECONDS = (1, 2, 4, 8)
NO_LINK = "No external link found"


class EntitiesSettings(BaseSettings):
    """Each is read from the environment: `sources` from ENTITIES_SOURCES, and so on."""

    model_config = SettingsConfigDict(
        env_prefix="ENTITIES_",
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    database_url: str = Field(
        default="sqlite:///entities.db",
        validation_alias=AliasChoices("ENTITIES_DATABASE_URL", "ROWMILL_DATABASE_URL", "DATABASE_URL"),
        repr=False,
    )
    """Otherwise ROWMILL_DATABASE_URL or DATABASE_URL."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Columns that your table of entities calls otherwise, in JSON: {"entity_id": "id", "name": "label"}."""
    id_type: Literal["text", "uuid"] = "text"
    """What the ids of your table are."""
    sources: str = "embedded"
    """Who is asked, by names with commas: embedded, wikidata, dbpedia, and those of ENTITIES_RECONCILIATION. Where two
    of them contradict each other, the first is believed."""
    knowledge_base: Path | None = None
    """The embedded knowledge base, a file made by `rowmill systems entities kb build`; otherwise the one that ships."""
    batch_size: int = Field(default=BATCH_SIZE, ge=1)
    """Entities that one worker process has under way at once."""

    max_attempts: int = Field(default=MAX_ATTEMPTS, ge=1)
    """At one stage; after the last one the entity is FAILED."""
    count_outages: bool = False
    """Every failure of a service costs an attempt, also one that is known to the whole fleet: while it is taken to be
    down, asks to wait, or refuses us."""

    link_threshold: float = Field(default=0.75, ge=0, le=1)
    """Confidence below which there is no link."""
    link_gap: float = Field(default=0.15, ge=0, le=1)
    """By which share the best candidate has to leave less doubt than the next one."""

    wikidata_url: str = "https://www.wikidata.org/w/api.php"
    """The Action API of Wikidata, or of another Wikibase with its properties."""
    dbpedia_lookup_url: str = "https://lookup.dbpedia.org/api/search"
    """DBpedia Lookup."""
    dbpedia_spotlight_url: str = "https://api.dbpedia-spotlight.org/en/candidates"
    """DBpedia Spotlight; it is asked where an entity has a context. Empty: never."""
    dbpedia_data_url: str = "https://dbpedia.org/data"
    """Where DBpedia's resources are, as NAME.json."""
    reconciliation: dict[str, str] = Field(default_factory=dict)
    """Services of the Reconciliation API, by name, in JSON: {"gleif": "https://…"}."""

    contact: str = ""
    """A mail address or a page, sent in the User-Agent, so that a service can write before it blocks."""
    language: str = "en"
    """In which names, descriptions and labels are asked for first."""
    calls_per_second: float = Field(default=5.0, gt=0)
    """To one service, by the whole fleet."""
    calls_at_once: int = Field(default=1, ge=1)
    """To one service, by the whole fleet."""
    call_seconds: float = Field(default=20.0, gt=0)
    """The longest that one call may take."""
    wait_seconds: float = Field(default=5.0, ge=0)
    """How long an entity waits for its turn in a worker before it goes back to the queue to wait there."""
    cache_days: float = Field(default=7.0, ge=0)
    """How long answers are kept."""
    cache_no_match_days: float = Field(default=1.0, ge=0)
    """How long it is remembered that a service knows nothing."""
    open_reconciliation: bool = True
    """Pages of other sites may ask the knowledge base, at /reconcile. Switch it off where yours is not everybody's."""
    most_bulk_rows: int = Field(default=100_000, ge=1)
    """Entities in one request."""
