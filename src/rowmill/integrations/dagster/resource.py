"""The resource through which jobs, sensors and checks get their mill."""

from dagster import ConfigurableResource
from pydantic import Field, PrivateAttr

from rowmill.integrations.mills import import_mill
from rowmill.mill import Mill
from rowmill.model.errors import DeclarationError

KEY = "mill"
"""The key of the resource, unless a factory is given another."""


class MillResource(ConfigurableResource["MillResource"]):
    """Imports the mill of an application when a run or a tick needs it. Nothing is connected until then.

    resources={"mill": MillResource(app="shop:mill")}

    A `Mill` itself is a resource, too, if your module has one: `resources={"mill": mill}`.
    """

    app: str = Field(description="The mill, or a function that returns one, as module:name.")
    database_url: str | None = Field(
        default=None, description="A database other than the mill's own. May be an EnvVar."
    )

    _mill: Mill | None = PrivateAttr(default=None)

    def get_mill(self) -> Mill:
        """Return the mill: the same each time. Raises DeclarationError if `app` does not lead to one."""
        if self._mill is None:
            self._mill = import_mill(self.app)
            if self.database_url is not None:
                self._mill.move_to(self.database_url)
        return self._mill


def mill_of(resource: object) -> Mill:
    """Return the mill of a resource, which is a MillResource or a Mill. It creates no SQLite file that is missing: a
    wrong path must not look like an empty queue."""
    mill = resource.get_mill() if isinstance(resource, MillResource) else resource
    if not isinstance(mill, Mill):
        raise DeclarationError(
            KEY, [f"the resource is no MillResource and no Mill but {type(mill).__name__}"], "resource"
        )
    mill.store.may_create = False
    return mill
