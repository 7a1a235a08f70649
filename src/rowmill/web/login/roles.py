"""Roles in an order, each with all rights of those before it."""

from enum import StrEnum
from typing import Self


class RankedRole(StrEnum):
    """The base of an application's roles: name them from the one with the fewest rights on.

    class Role(RankedRole):
        VIEWER = "viewer"
        OPERATOR = "operator"
        ADMINISTRATOR = "administrator"
    """

    def may(self, needed: Self) -> bool:
        """Tell whether the role has the rights of another one."""
        order = list(type(self))
        return order.index(self) >= order.index(needed)
