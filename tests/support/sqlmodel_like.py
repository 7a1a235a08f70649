"""The core of how SQLModel makes a class, for tests: a Pydantic model that is a declarative class too.

SQLModel itself is no dependency of this project. What matters to Rowmill is the same here: Pydantic looks for fields in
the annotations of all base classes, the fields of a table become columns, constructors know the fields alone, and an
attribute is set in SQLAlchemy first and in Pydantic after that.
"""

from typing import Any, ClassVar, get_args

import pydantic
import sqlalchemy as sa
from pydantic._internal._model_construction import ModelMetaclass
from pydantic.fields import FieldInfo
from sqlalchemy.orm import DeclarativeMeta, registry
from sqlalchemy.orm.attributes import set_attribute

TYPES: dict[type, Any] = {int: sa.Integer, str: sa.String, bool: sa.Boolean, float: sa.Float}


def Field(default: Any = ..., *, primary_key: bool = False, **options: Any) -> Any:
    return pydantic.Field(default, json_schema_extra={"primary_key": primary_key}, **options)


def column(field: FieldInfo) -> "sa.Column[Any]":
    kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)] or [field.annotation]
    extra: Any = field.json_schema_extra or {}
    key = bool(extra.get("primary_key"))
    default = {} if field.is_required() else {"default": field.default}
    return sa.Column(
        TYPES[kinds[0]], primary_key=key, nullable=not key and type(None) in get_args(field.annotation), **default
    )


class SQLModelMetaclass(ModelMetaclass, DeclarativeMeta):
    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        table = options.pop("table", False)
        made: Any = super().__new__(mcs, name, bases, {**namespace, "__weakref__": None})
        if table:
            made.model_config["table"] = True
            for key, field in made.model_fields.items():
                type.__setattr__(made, key, column(field))
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> None:
        if options.get("table"):
            DeclarativeMeta.__init__(cls, name, bases, namespace)
        else:
            ModelMetaclass.__init__(cls, name, bases, namespace)

    def __setattr__(cls, name: str, value: Any) -> None:
        (DeclarativeMeta if "__table__" in cls.__dict__ else ModelMetaclass).__setattr__(cls, name, value)


class SQLModel(pydantic.BaseModel, metaclass=SQLModelMetaclass):
    __slots__ = ("__weakref__",)
    __abstract__: ClassVar[bool] = True
    __allow_unmapped__: ClassVar[bool] = True
    _sa_registry: ClassVar[registry] = registry()
    metadata: ClassVar[sa.MetaData] = _sa_registry.metadata

    def __new__(cls, *args: Any, **values: Any) -> Any:
        made = super().__new__(cls)
        for name, value in (("fields_set", set()), ("extra", None), ("private", None)):
            object.__setattr__(made, f"__pydantic_{name}__", value)
        return made

    def __init__(self, **values: Any) -> None:
        for name, field in type(self).model_fields.items():
            if name in values or not field.is_required():
                setattr(self, name, values.get(name, field.default))

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_sa_instance_state":
            self.__dict__[name] = value
            return
        if "__table__" in type(self).__dict__:
            set_attribute(self, name, value)
        super().__setattr__(name, value)
