"""The entities that the environment describes. `--app rowmill_systems.entities.app:mill` works with every command."""

from rowmill_systems.entities.entities import Entities
from rowmill_systems.entities.settings import EntitiesSettings

entities = Entities(EntitiesSettings())
mill = entities.mill
