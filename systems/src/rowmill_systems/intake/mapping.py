"""Build the mapper of fields: rules, or a model if one is configured."""

import rowmill as rm
from rowmill_systems.intake.fields.model import ModelMapper, ModelSettings
from rowmill_systems.intake.settings import IntakeSettings


def model_mapper(settings: IntakeSettings, mill: rm.Mill) -> ModelMapper:
    """Return a mapper that asks the configured model within limits of the whole fleet."""
    rate, tokens = settings.model_calls_per_minute, settings.model_tokens_per_day
    limit = mill.limit(
        "intake-model",
        rate=rm.limits.Rate(rate, per=60) if rate is not None else None,
        budget=rm.limits.Budget(tokens, per="day") if tokens is not None else None,
        lease=settings.model_seconds + 30,
    )
    model = ModelSettings(
        settings.model_url or "", settings.model_name, settings.model_key, timeout=settings.model_seconds
    )
    return ModelMapper(model, limit)
