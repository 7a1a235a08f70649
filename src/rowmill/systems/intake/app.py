"""The intake that the environment describes. `--app rowmill.systems.intake.app:mill` works with every command."""

from rowmill.systems.intake.intake import Intake
from rowmill.systems.intake.settings import IntakeSettings

intake = Intake(IntakeSettings())
mill = intake.mill
