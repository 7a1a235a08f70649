"""The entities that the environment describes. `--app rowmill.systems.entities.app:mill` works with every command."""

from rowmill.systems.entities.entities import Entities
from rowmill.systems.entities.settings import EntitiesSettings

entities = Entities(EntitiesSettings())
mill = entities.mill
