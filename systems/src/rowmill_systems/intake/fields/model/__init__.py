"""Fields by a language model, for those who have configured one. What it says is checked against the pages."""

from rowmill_systems.intake.fields.model.mapper import ModelMapper
from rowmill_systems.intake.fields.model.settings import ModelSettings

__all__ = ["ModelMapper", "ModelSettings"]
