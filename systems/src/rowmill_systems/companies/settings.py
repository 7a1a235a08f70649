"""How companies behaves. Read from the environment once, at the edge, and frozen."""

from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

MAX_ATTEMPTS = 3
RETRY_MINUTES = (1, 5, 15)
STALE_MINUTES = 15
LONGEST_DAYS = 36_500
BACKLOG_WARNING = "Enrichment queue backlog high"


class CompaniesSettings(BaseSettings):
    """Each is read from the environment: `eqc_token` from WDH_EQC_TOKEN, and so on."""

    model_config = SettingsConfigDict(
        env_prefix="WDH_",
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    database_url: str = Field(
        default="sqlite:///companies.db",
        validation_alias=AliasChoices("WDH_DATABASE_URL", "ROWMILL_DATABASE_URL", "DATABASE_URL"),
        repr=False,
    )
    """Otherwise ROWMILL_DATABASE_URL or DATABASE_URL."""

    async_enrichment_enabled: bool = True
    """Whether the schedule starts the job."""
    enrichment_sensor_enabled: bool = False
    """Whether the sensor starts the job."""
    enrichment_queue_threshold: int = Field(default=1000, ge=0)
    """Pending requests above which the sensor starts the job."""
    enrichment_queue_warning_threshold: int = Field(default=10_000, ge=0)
    """Pending requests above which a run logs a warning."""
    enrichment_batch_size: int = Field(default=100, ge=1)
    """Requests that a run takes at a time."""
    enrichment_schedule_cron: str = "0 * * * *"
    """When the schedule starts the job."""
    enrichment_schedule_timezone: str = "Asia/Shanghai"
    enrichment_stale_minutes: float = Field(default=STALE_MINUTES, gt=0)
    """How long a request may stay `processing`; after that it is taken for abandoned."""
    enrichment_max_attempts: int = Field(default=MAX_ATTEMPTS, ge=1)
    """The last failure is permanent."""

    temp_id_salt: SecretStr = SecretStr("")
    """The secret of temporary ids. Required on PostgreSQL; generated and kept beside the file on SQLite."""
    temp_id_salt_previous: SecretStr = SecretStr("")
    """The salt before a rotation: ids made with it are still recognised and replaced."""

    providers: str = "eqc"
    """Who is asked, by names with commas, in this order: eqc, file, and those of WDH_RECONCILIATION."""
    eqc_base_url: str = ""
    """Empty: EQC is not asked."""
    eqc_token: SecretStr = SecretStr("")
    """Sent to EQC, and shown nowhere."""
    eqc_timeout_seconds: float = Field(default=10.0, gt=0)
    eqc_search_path: str = "/kg-api-hfd/api/search/"
    """Added to the base URL."""
    eqc_keyword: str = "key"
    """The parameter that carries the name."""
    eqc_token_header: str = "token"  # noqa: S105 - the name of a header
    """The header that carries the token."""
    eqc_sync_budget: int = Field(default=5, ge=0)
    """Calls that one resolver makes while the caller waits."""
    eqc_sync_seconds: float = Field(default=2.0, ge=0, le=60)
    """How long one resolver waits for providers, in all. What has no answer by then goes to the queue."""
    eqc_run_budget: int = Field(default=1000, ge=0)
    """Calls that one run of the queue makes; of continuous workers, calls that all of them make in an hour."""
    eqc_concurrency: int = Field(default=4, ge=1, le=10)
    """Requests to EQC that a lookup has under way at once."""
    reconciliation: dict[str, str] = Field(default_factory=dict)
    """Services of the Reconciliation API, by name, in JSON: {"gleif": "https://…"}."""
    reconciliation_types: dict[str, str] = Field(default_factory=dict)
    """The type of things that a service is asked for, by its name, in JSON: {"wikidata": "Q4830453"}."""
    reconciliation_properties: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Values of properties that go with every query to a service, in JSON: {"wikidata": {"P17": "Q183"}}."""
    companies_file: Path | None = None
    """A CSV or Parquet file of companies, as an embedded provider."""
    companies_columns: dict[str, str] = Field(default_factory=dict)
    """The columns of that file, in JSON: {"id": "…", "name": "…", "other_names": "…,…", "details": "…"}. Without it,
    GLEIF's and usual ones are recognised."""
    companies_index_dir: Path | None = None
    """The folder for the index of that file. Otherwise it is beside the file."""
    contact: str = ""
    """A mail address or a page, sent in the User-Agent."""

    accept_score: float = Field(default=0.9, ge=0, le=1)
    """A candidate below is not accepted without a person."""
    accept_gap: float = Field(default=0.05, gt=0, le=1)
    """By how much the best candidate has to be better than the next company. More than 0."""
    cache_days: float = Field(default=90.0, ge=0, le=LONGEST_DAYS)
    """How long an answer of a provider is believed."""
    cache_no_match_days: float = Field(default=7.0, ge=0, le=LONGEST_DAYS)
    """How long it is remembered that no provider knows a name."""

    structlog: bool = False
    """Log with structlog, if your application does. Otherwise with Python's logging, and fields in `extra`."""
