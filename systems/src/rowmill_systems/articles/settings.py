"""How articles behaves. Read from the environment once, at the edge, and frozen."""

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

MAX_ATTEMPTS = 3
FRESH_HOURS, RECENT_HOURS = 24, 72
FRESH_PRIORITY, RECENT_PRIORITY, OLD_PRIORITY = 10, 5, 0
TOP_K = 3
THRESHOLD = 0.3
MB = 1024 * 1024


class ArticlesSettings(BaseSettings):
    """Each is read from the environment: `contact` from ARTICLES_CONTACT, and so on."""

    model_config = SettingsConfigDict(
        env_prefix="ARTICLES_",
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    database_url: str = Field(
        default="sqlite:///articles.db",
        validation_alias=AliasChoices("ARTICLES_DATABASE_URL", "ROWMILL_DATABASE_URL", "DATABASE_URL"),
        repr=False,
    )
    """Otherwise ROWMILL_DATABASE_URL or DATABASE_URL."""
    ml_enabled: bool = Field(default=True, validation_alias=AliasChoices("ML_ENABLED", "ARTICLES_ML_ENABLED"))
    """Whether the web application runs a classification worker. From ML_ENABLED."""
    contact: str = ""
    """A mail address or a page, sent in the User-Agent."""

    min_interval_seconds: int = Field(default=300, ge=1)
    """A feed is not fetched more often, whatever it says."""
    max_interval_seconds: int = Field(default=86_400, ge=1)
    """A feed is fetched at least this often, whatever it says."""
    default_interval_seconds: int = Field(default=1800, ge=1)
    """For a feed of which nothing is known yet."""
    fetch_seconds: float = Field(default=30.0, gt=0)
    """The longest that one fetch may take, redirects included."""
    max_feed_bytes: int = Field(default=10 * MB, gt=0)
    """Of a feed, unpacked. What is larger is refused."""
    max_entries: int = Field(default=1000, ge=1)
    """Entries that are taken of one feed; the newest ones."""
    concurrent_fetches: int = Field(default=16, ge=1)
    """Feeds that one process fetches at once."""
    allow_private_addresses: bool = False
    """Fetch from loopback, private and link-local addresses too."""

    classifier: Literal["wordllama", "mdeberta", "endpoint"] = "wordllama"
    """Which model finds topics."""
    taxonomy: Path | None = None
    """The topics, in a TOML file; otherwise those that ship with articles."""
    trained_model: Path | None = None
    """What `train` wrote: a team's own labels on top of the embeddings."""
    top_k: int = Field(default=TOP_K, ge=1)
    """The most topics of one article."""
    threshold: float = Field(default=THRESHOLD, ge=0, le=1)
    """Topics with a lower score are left out."""
    batch_size: int = Field(default=10, ge=1)
    """Articles that are classified in one call."""
    poll_seconds: float = Field(default=30.0, gt=0)
    """How often an idle worker looks; new work wakes it at once."""
    lease_seconds: float = Field(default=60.0, ge=1)
    """After this time without a sign of life of its worker, an article or a feed is given back."""
    mdeberta_path: Path | None = None
    """The folder of a zero-shot mDeBERTa model: config.json, tokenizer.json, model.safetensors."""
    endpoint_url: str = ""
    """An OpenAI-compatible endpoint, as http://127.0.0.1:8080/v1."""
    endpoint_model: str = ""
    """The name of the model."""
    endpoint_key: SecretStr = SecretStr("")
    """The API key. Shown nowhere."""
    endpoint_calls_per_minute: int | None = Field(default=None, gt=0)
    """A rate for the whole fleet."""
    endpoint_tokens_per_day: int | None = Field(default=None, gt=0)
    """A budget for the whole fleet."""
