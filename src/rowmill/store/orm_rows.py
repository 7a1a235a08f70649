"""Makes instances of ORM classes for handlers (`lease.row`). Only queues on ORM classes import it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column
from sqlalchemy.orm import InstanceState, Mapper, configure_mappers, make_transient_to_detached, object_mapper
from sqlalchemy.orm.attributes import instance_state, set_committed_value

from rowmill.model.errors import ColumnNotLoaded
from rowmill.store.queue_sql import QueueSql
from rowmill.store.rows import Attributes, RowLoader, read_or


class NotLoaded:
    """Stands for a column that was left out of the claim, on an instance of an ORM class. Reading it raises, until the
    instance is in a session, which then loads it like any deferred column."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, state: "InstanceState[Any]", passive: Any) -> Any:
        if state.session is None:
            raise ColumnNotLoaded(self._name)
        forget(state, self._name)
        state.expired_attributes.add(self._name)
        return getattr(state.obj(), self._name)


def forget(state: "InstanceState[Any]", name: str) -> None:
    """Remove `NotLoaded` from an attribute."""
    state.callables = {other: call for other, call in state.callables.items() if other != name}


class OrmRowLoader(RowLoader):
    """Builds instances of a queue's ORM class from records."""

    def __init__(self, sql: QueueSql) -> None:
        super().__init__(sql)
        assert self.queue.mapper is not None
        self._mapper = self.queue.mapper
        self._attributes_by_class: dict[Mapper[Any], Attributes] = {}

    def __call__(self, record: Sequence[Any]) -> Any:
        mapper = self._mapper_of(record)
        attributes = self._attributes_by_class.get(mapper)
        if attributes is None:
            attributes = self._attributes_by_class[mapper] = self._attributes_of(mapper)
        values = self.values(record, attributes)
        instance = mapper.class_manager.new_instance()
        instance.__dict__.update(values)
        make_transient_to_detached(instance)
        if self._left_out:
            self._leave_out(instance, mapper)
        return instance

    def _attributes_of(self, mapper: "Mapper[Any]") -> Attributes:
        """Return the attributes of a mapped class with their places. A class may lack columns of its table, such as
        those of a sister class."""
        configure_mappers()  # by now every class is defined; an instance can't be made before
        return [
            (place, mapper.get_property_by_column(column).key, reader)
            for place, (column, reader) in enumerate(zip(self.columns, self.readers, strict=True))
            if column in mapper.columns.values()
        ]

    def _mapper_of(self, record: Sequence[Any]) -> "Mapper[Any]":
        """Return the mapped class of a row, by its discriminator if a table holds several classes."""
        mapper = self._mapper
        if mapper.polymorphic_on is None:
            return mapper
        place = next((n for n, column in enumerate(self.columns) if column is mapper.polymorphic_on), None)
        if place is None:
            return mapper
        reader = self.readers[place]
        kind = record[place] if reader is None else read_or(reader, record[place])
        found: Mapper[Any] = mapper.polymorphic_map.get(kind, mapper)
        return found

    def _leave_out(self, instance: Any, mapper: "Mapper[Any]") -> None:
        state = instance_state(instance)
        own = [column for column in self.queue.left_out if column in mapper.columns.values()]
        names = [mapper.get_property_by_column(column).key for column in own]
        state.expired_attributes.difference_update(names)
        state.callables = {name: NotLoaded(name) for name in names}

    def get(self, row: Any, column: "Column[Any]") -> Any:
        mapper = object_mapper(row)
        if column not in mapper.columns.values():
            raise ColumnNotLoaded(column.name)
        return getattr(row, mapper.get_property_by_column(column).key)

    def put(self, row: Any, column: "Column[Any]", value: Any) -> None:
        mapper = object_mapper(row)
        if column in mapper.columns.values():
            name = mapper.get_property_by_column(column).key
            forget(instance_state(row), name)
            set_committed_value(row, name, value)
