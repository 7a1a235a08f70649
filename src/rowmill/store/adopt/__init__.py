"""Making a queue of a table that is there already: look at it, guess what it means, plan what it lacks, do it."""

from rowmill.store.adopt.carry import AdoptionFailed, carry_out
from rowmill.store.adopt.change import Change, Part, Plan
from rowmill.store.adopt.examine import Adoption, examine_queue, examine_table
from rowmill.store.adopt.guess import Wishes

__all__ = [
    "Adoption",
    "AdoptionFailed",
    "Change",
    "Part",
    "Plan",
    "Wishes",
    "carry_out",
    "examine_queue",
    "examine_table",
]
