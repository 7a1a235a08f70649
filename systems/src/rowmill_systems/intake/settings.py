"""How intake behaves. Read from the environment once, at the edge, and frozen."""

from pathlib import Path
from typing import Literal

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

import rowmill as rm

MAX_PROCESSING_ATTEMPTS = 3
SWEEP_SECONDS = 60.0
HEARTBEAT_SECONDS = 10.0
"""Between two signs of life. Files take seconds to minutes, so an idle worker need not say so more often; it is taken
for dead after thirty seconds."""
MB = 1024 * 1024


class IntakeSettings(BaseSettings):
    """Settings from the environment: `storage` from INTAKE_STORAGE, and so on."""

    model_config = SettingsConfigDict(
        env_prefix="INTAKE_",
        frozen=True,
        extra="forbid",
        populate_by_name=True,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    database_url: str = Field(
        default="sqlite:///intake.db",
        validation_alias=AliasChoices("INTAKE_DATABASE_URL", "ROWMILL_DATABASE_URL", "DATABASE_URL"),
        repr=False,
    )
    """Otherwise ROWMILL_DATABASE_URL or DATABASE_URL."""
    storage: str = "intake-files"
    """A folder, or s3://bucket/prefix?endpoint_url=…"""
    catalogue: Path | None = None
    """The fields to look for, in a TOML file; otherwise the catalogue that ships with intake."""
    max_file_bytes: int = Field(default=50 * MB, gt=0)
    """Larger files are refused at the upload."""

    worker_poll_base_seconds: float = Field(default=1.0, gt=0)
    """The first wait of a worker that found nothing."""
    worker_poll_max_seconds: float = Field(default=30.0, gt=0)
    """The longest wait, jitter included."""
    worker_stale_seconds: float = Field(default=900.0, ge=1)
    """After so long without a sign of life of its worker, a file is given back."""
    readers: int = Field(default=1, ge=1)
    """Files that one worker process reads at once; each has a process of its own, of up to 500 MB with OCR."""
    reading_seconds: float = Field(default=900.0, gt=0)
    """The most time for reading one file."""
    ocr: Literal["auto", "tesseract", "rapidocr", "off"] = "auto"
    """The OCR engine: `auto` is tesseract if it is installed, otherwise RapidOCR."""

    model_url: str | None = None
    """An OpenAI-compatible endpoint, as http://127.0.0.1:8080/v1. Without one, rules find the fields."""
    model_name: str = ""
    """The name of the model."""
    model_key: SecretStr | None = None
    """The API key."""
    model_seconds: float = Field(default=60.0, gt=0)
    """The most time for one call."""
    model_tokens_per_day: int | None = Field(default=None, gt=0)
    """A budget for the whole fleet."""
    model_calls_per_minute: int | None = Field(default=None, gt=0)
    """A rate for the whole fleet."""

    @property
    def worker(self) -> rm.worker.WorkerSettings:
        return rm.worker.WorkerSettings(
            poll_base=min(self.worker_poll_base_seconds, self.worker_poll_max_seconds),
            poll_max=self.worker_poll_max_seconds,
            rescue_every=SWEEP_SECONDS,
            heartbeat=HEARTBEAT_SECONDS,
        )
