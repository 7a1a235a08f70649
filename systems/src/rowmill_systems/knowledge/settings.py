"""How knowledge bases behave. Read from the environment once, at the edge, and frozen."""

from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

MAX_OUTBOX_ATTEMPTS = 5
LAST_ERROR_LENGTH = 1000
STALE_MINUTES = 30
ALERT_ABOVE = 5
MB = 1024 * 1024


class KnowledgeSettings(BaseSettings):
    """Each is read from the environment: `storage` from KNOWLEDGE_STORAGE, and so on."""

    model_config = SettingsConfigDict(
        env_prefix="KNOWLEDGE_",
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    database_url: str = Field(
        default="sqlite:///knowledge.db",
        validation_alias=AliasChoices("KNOWLEDGE_DATABASE_URL", "ROWMILL_DATABASE_URL", "DATABASE_URL"),
        repr=False,
    )
    """Otherwise ROWMILL_DATABASE_URL or DATABASE_URL."""
    storage: str = "knowledge-files"
    """Where files are: a folder, or s3://bucket/prefix?endpoint_url=…, as s3://lumikb."""
    vectors: str = Field(default="knowledge-vectors.db", repr=False)
    """Where vectors are: a file that the processes of one machine share, postgresql://… with pgvector, or the
    http://host:6333 of Qdrant."""
    vectors_key: SecretStr | None = None
    """The API key of Qdrant. Shown nowhere."""
    max_file_bytes: int = Field(default=50 * MB, gt=0)
    """Larger files are refused at the upload."""

    embedder: Literal["wordllama", "minilm", "endpoint"] = "wordllama"
    """The model that makes vectors. Another one than before embeds every document again."""
    endpoint_url: str = ""
    """An OpenAI-compatible endpoint, as http://127.0.0.1:8080/v1: for embeddings, and for answers."""
    endpoint_key: SecretStr | None = None
    """The API key. Shown nowhere."""
    embedding_model: str = ""
    """The name of the endpoint's model for embeddings."""
    embedding_dimensions: int = Field(default=1536, gt=0)
    """The length of that model's vectors."""
    answer_model: str = ""
    """The name of the endpoint's model for answers. Without one, questions get passages only."""
    endpoint_calls_per_minute: int | None = Field(default=None, gt=0)
    """A rate for the whole fleet."""
    endpoint_tokens_per_day: int | None = Field(default=None, gt=0)
    """A budget for the whole fleet."""

    chunk_tokens: int = Field(default=256, ge=32, le=4096)
    """The most tokens of a passage, by estimate."""
    concurrent_events: int = Field(default=4, ge=1)
    """Events that one process handles at once."""
    readers: int = Field(default=1, ge=1)
    """Files that one process reads at once; each has a process of its own, of up to 500 MB with OCR."""
    reading_seconds: float = Field(default=900.0, gt=0)
    """The most time for reading one file."""
    ocr: Literal["auto", "tesseract", "rapidocr", "off"] = "auto"
    """The OCR engine: `auto` is tesseract if it is installed, otherwise RapidOCR."""

    dispatch_seconds: float = Field(default=10.0, gt=0)
    """How often an idle worker looks for events; new ones wake it at once."""
    lease_seconds: float = Field(default=60.0, ge=1)
    """After this time without a sign of life of its worker, an event is given back."""
    upload_seconds: float = Field(default=3600.0, gt=0)
    """An upload that was not finished after this time is removed."""
    stale_minutes: float = Field(default=STALE_MINUTES, gt=0)
    """A document that is processed or deleted for longer counts as stuck."""
    grace_seconds: float = Field(default=600.0, ge=0)
    """What changed less than this ago is in flight, and no finding."""
    schedules: bool = True
    """Compare the stores and clean up by Rowmill's own schedules. Switch it off where Celery beat does it."""
    reconcile_cron: str = "0 * * * *"
    """When the stores are compared; UTC."""
    reconcile_cap: int = Field(default=100, ge=0)
    """The most corrections of one kind of comparison in one run."""
    alert_above: int = Field(default=ALERT_ABOVE, ge=0)
    """More findings than this raise an alert."""
    cleanup_cron: str = "0 3 * * *"
    """When old events are deleted; UTC."""
    keep_processed_days: float = Field(default=7.0, gt=0)
    keep_dead_days: float = Field(default=30.0, gt=0)

    session_hours: float = Field(default=12.0, gt=0)
    """How long a login lasts."""
    password_cost: int = Field(default=15, ge=1, le=20)
    """What checking a password costs: each step doubles its time and memory. 15 is 32 MB and a third of a second."""
    secure_cookies: bool = False
    """Send the cookie of a session over HTTPS only. Set it where people reach the pages by HTTPS."""
