"""The intake that the environment describes. `--app rowmill_systems.intake.app:mill` works with every command."""

from rowmill_systems.intake.intake import Intake
from rowmill_systems.intake.settings import IntakeSettings

intake = Intake(IntakeSettings())
mill = intake.mill
