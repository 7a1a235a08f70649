"""Turn an existing table into a queue: examine it, guess its meaning, plan the migration, run it."""

from rowmill.adopt.apply import AdoptionFailed, carry_out
from rowmill.adopt.examine import Adoption, examine_queue, examine_table
from rowmill.adopt.guess import AdoptOptions
from rowmill.adopt.steps import MigrationPlan, MigrationStep, StepKind

__all__ = [
    "AdoptOptions",
    "Adoption",
    "AdoptionFailed",
    "MigrationPlan",
    "MigrationStep",
    "StepKind",
    "carry_out",
    "examine_queue",
    "examine_table",
]
