"""ORM classes with more to them than columns."""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    MappedAsDataclass,
    column_property,
    composite,
    deferred,
    mapped_column,
    relationship,
    validates,
)
from sqlalchemy.orm.exc import DetachedInstanceError

from rowmill import Columns, Lease, Mill, Queue, QueueMixin
from rowmill.errors import ColumnNotLoaded, DeclarationError
from tests.conformance.fleet import worker
from tests.support.sqlmodel_like import Field, SQLModel


class Base(DeclarativeBase):
    pass


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    __hash__ = None  # type: ignore[assignment]


class Owner(Base):
    __tablename__ = "owners"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Rich(QueueMixin, Base):
    """Attributes under other names than their columns, deferred, computed, composed, related."""

    __tablename__ = "rich"
    number: Mapped[int] = mapped_column("Job No", primary_key=True)
    text: Mapped[str] = mapped_column("Body Text")
    heavy: Mapped[str | None] = mapped_column(deferred=True)
    late: Mapped[str | None] = deferred(mapped_column("late_text", sa.Text))
    shout: Mapped[str] = column_property(sa.func.upper(sa.literal_column('"Body Text"')))
    x: Mapped[int] = mapped_column(default=1)
    y: Mapped[int] = mapped_column(default=2)
    point: Mapped[Point] = composite("x", "y")
    owner_id: Mapped[int | None] = mapped_column(sa.ForeignKey("owners.id"))
    owner: Mapped[Owner | None] = relationship()

    @validates("text")
    def check_text(self, key: str, value: str) -> str:
        assert value != "bad"
        return value

    @property
    def words(self) -> int:
        return len(self.text.split())


def rich(mill: Mill) -> Queue[Rich]:
    return mill.queue(Rich)


async def test_a_class_with_everything(database_url: str) -> None:
    """What is in the columns is there, but for deferred ones; what would need a query says so, and loads once it is in
    a session."""
    async with worker(database_url, rich) as member:
        async with AsyncSession(member.store.engine) as session, session.begin():
            owner = Owner(name="Ada")
            session.add(Rich(text="two words", heavy="h", late="l", owner=owner))
        seen: list[Rich] = []

        @member.queue.handler()
        async def work(lease: Lease[Rich]) -> dict[str, Any]:
            row = lease.row
            seen.append(row)
            assert (row.text, row.words) == ("two words", 2)
            with pytest.raises(ColumnNotLoaded):
                _ = row.heavy
            assert (await lease.fetch("heavy"), row.heavy, await lease.fetch("late")) == ("h", "h", "l")
            assert row.point == Point(1, 2)
            assert (row.state, row.attempts) == ("running", 1)
            with pytest.raises(DetachedInstanceError):
                _ = row.shout
            with pytest.raises(DetachedInstanceError):
                _ = row.owner
            async with AsyncSession(member.store.engine) as session:
                session.add(row)
                await session.refresh(row, ["shout", "owner"])
                assert (row.shout, row.owner and row.owner.name) == ("TWO WORDS", "Ada")
            return {"text": "by attribute", "late_text": "by column", "x": 7}

        await member.bench.drain()
        assert len(seen) == 1
        row = await member.row()
        assert (row.state, row._mapping["Body Text"], row.late_text, row.x) == ("done", "by attribute", "by column", 7)


async def test_rows_put_in_by_attribute_and_by_column(database_url: str) -> None:
    async with worker(database_url, rich) as member:
        await member.put({"text": "insert", "x": 1, "y": 1}, {"Body Text": "insert", "x": 1, "y": 1})
        await member.queue.load([{"text": "load"}, {"Body Text": "load"}])
        assert [(lease.row.text, lease.row.x) for lease in await member.claim(10)] == [
            ("insert", 1), ("insert", 1), ("load", 1), ("load", 1),
        ]  # fmt: skip


async def test_a_class_whose_relations_are_not_defined_yet(database_url: str) -> None:
    """A queue is declared right below its class, before the module of the related one is imported."""

    class Own(DeclarativeBase):
        pass

    class Early(QueueMixin, Own):
        __tablename__ = "early"
        id: Mapped[int] = mapped_column(primary_key=True)
        late_id: Mapped[int | None] = mapped_column(sa.ForeignKey("late.id"))
        late: Mapped["Late | None"] = relationship("Late")

    mill = Mill(database_url)
    queue = mill.queue(Early)
    assert queue.names["late_id"] is Early.__table__.c.late_id

    class Late(Own):
        __tablename__ = "late"
        id: Mapped[int] = mapped_column(primary_key=True)

    async with worker(database_url, lambda mill: mill.queue(Early)) as member:
        await member.put({"late_id": None})
        [lease] = await member.claim()
        assert (lease.row.state, lease.row.late_id) == ("running", None)


async def test_a_dataclass(database_url: str) -> None:
    class Data(MappedAsDataclass, DeclarativeBase):
        pass

    class Job(Data):
        __tablename__ = "jobs"
        id: Mapped[int] = mapped_column(primary_key=True, init=False)
        title: Mapped[str]
        state: Mapped[str] = mapped_column(default="ready")
        attempts: Mapped[int] = mapped_column(default=0)
        available_at: Mapped[Any] = mapped_column(sa.DateTime, default=None, nullable=True)
        lease: Mapped[int | None] = mapped_column(sa.BigInteger, default=None)
        leased_until: Mapped[Any] = mapped_column(sa.DateTime, default=None, nullable=True)
        error: Mapped[str | None] = mapped_column(default=None)
        finished_at: Mapped[Any] = mapped_column(sa.DateTime, default=None, nullable=True)

    async with worker(database_url, lambda mill: mill.queue(Job)) as member:
        async with AsyncSession(member.store.engine) as session, session.begin():
            session.add(Job(title="a"))
        [lease] = await member.claim()
        assert isinstance(lease.row, Job)
        assert (lease.row.title, lease.row.id) == ("a", lease.key)
        assert (await member.settle((lease, {"title": "b"}))).kept == 1


class Animals(DeclarativeBase):
    pass


class Animal(QueueMixin, Animals):
    """One table for several classes."""

    __tablename__ = "animals"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    name: Mapped[str | None]
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "animal"}  # noqa: RUF012


class Dog(Animal):
    tricks: Mapped[int | None]
    __mapper_args__ = {"polymorphic_identity": "dog"}  # noqa: RUF012


class Cat(Animal):
    lives: Mapped[int | None]
    __mapper_args__ = {"polymorphic_identity": "cat"}  # noqa: RUF012


async def test_one_table_for_several_classes(database_url: str) -> None:
    """Declared on the class at the top, each row comes as what it is."""
    async with worker(database_url, lambda mill: mill.queue(Animal)) as member:
        async with AsyncSession(member.store.engine) as session, session.begin():
            session.add_all([Dog(name="Rex", tricks=3), Cat(name="Tom", lives=9), Animal(name="Egon")])
        await member.put({"kind": "unicorn", "name": "who knows"})
        rows = {lease.row.name: lease.row for lease in await member.claim(10)}
        assert [type(rows[name]) for name in ("Rex", "Tom", "Egon", "who knows")] == [Dog, Cat, Animal, Animal]
        assert (rows["Rex"].tricks, rows["Tom"].lives) == (3, 9)


async def test_one_of_several_classes_is_refused(database_url: str) -> None:
    """The queue would take rows of its sisters too: a table has one set of workers."""
    with pytest.raises(DeclarationError, match=r"Dog shares table animals with other classes.*declare Animal"):
        Mill(database_url).queue(Dog)


class Vehicles(DeclarativeBase):
    pass


class Vehicle(QueueMixin, Vehicles):
    """A class whose subclasses have tables of their own."""

    __tablename__ = "vehicles"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "vehicle"}  # noqa: RUF012


class Car(Vehicle):
    __tablename__ = "cars"
    id: Mapped[int] = mapped_column(sa.ForeignKey("vehicles.id"), primary_key=True)
    doors: Mapped[int | None]
    __mapper_args__ = {"polymorphic_identity": "car"}  # noqa: RUF012


async def test_a_table_with_parts_in_other_tables(database_url: str) -> None:
    """Declared on the class at the top: what is in its own table is there, the rest loads in a session."""
    async with worker(database_url, lambda mill: mill.queue(Vehicle)) as member:
        async with AsyncSession(member.store.engine) as session, session.begin():
            session.add(Car(doors=5))
        [lease] = await member.claim()
        car = lease.row
        assert isinstance(car, Car)
        with pytest.raises(DetachedInstanceError):
            _ = car.doors
        async with AsyncSession(member.store.engine) as session:
            session.add(car)
            await session.refresh(car, ["doors"])
            assert car.doors == 5


async def test_a_part_in_another_table_is_refused(database_url: str) -> None:
    with pytest.raises(DeclarationError, match=r"Car is spread over several tables.*declare Vehicle"):
        Mill(database_url).queue(Car)


async def test_a_class_over_a_query_is_refused(database_url: str) -> None:
    class Own(DeclarativeBase):
        pass

    class View(Own):
        __table__ = sa.select(Rich.__table__.c["Job No"]).subquery()
        __mapper_args__ = {"primary_key": [__table__.c["Job No"]]}  # noqa: RUF012

    with pytest.raises(DeclarationError, match="mapped to a query"):
        Mill(database_url).queue(View)


async def test_a_class_that_leaves_columns_out(database_url: str) -> None:
    class Part(DeclarativeBase):
        pass

    table = Rich.metadata.tables["rich"]

    class Some(Part):
        __table__ = table.to_metadata(Part.metadata, name="some")
        __mapper_args__ = {"exclude_properties": ["heavy", "late_text"]}  # noqa: RUF012

    columns = Columns(created_at="created_at")
    Owner.metadata.tables["owners"].to_metadata(Part.metadata)
    async with worker(database_url, lambda mill: mill.queue(Some, columns=columns)) as member:
        await member.put({"Body Text": "a", "x": 1, "y": 2, "heavy": "there"})
        [lease] = await member.claim()
        assert getattr(lease.row, "Body Text") == "a"
        assert not hasattr(lease.row, "heavy")


class Hero(QueueMixin, SQLModel, table=True):
    """As people write with SQLModel: a Pydantic model that is a table."""

    __tablename__ = "hero"
    id: int | None = Field(default=None, primary_key=True)
    name: str
    power: str | None = None


def test_the_columns_of_the_queue_are_no_fields_of_a_sqlmodel() -> None:
    assert list(Hero.model_fields) == ["id", "name", "power"]
    table: sa.Table = Hero.__table__  # type: ignore[attr-defined]
    plain: sa.Table = Rich.__table__  # type: ignore[assignment]
    for column in ("state", "attempts", "available_at", "lease", "finished_at", "created_at"):
        assert table.c[column].type.compile() == plain.c[column].type.compile()
        assert table.c[column].nullable == plain.c[column].nullable


async def test_a_sqlmodel_is_worked_on_as_what_it_is(database_url: str) -> None:
    mill = Mill(database_url)
    heroes = mill.queue(Hero)
    seen = []

    @heroes.handler
    async def train(hero: Lease[Hero]) -> dict[str, str]:
        seen.append((hero.row, hero.row.name, hero.row.model_dump()))
        return {"power": "flight"}

    async with mill.opened() as store:
        await mill.migrate(tables=True)
        async with AsyncSession(store.engine) as session, session.begin():
            session.add(Hero(name="Deadpond"))
        assert (await mill.drain()).done == 1
        async with AsyncSession(store.engine) as session:
            hero = (await session.scalars(sa.select(Hero))).one()
    assert isinstance(seen[0][0], Hero)
    assert seen[0][1:] == ("Deadpond", {"id": 1, "name": "Deadpond", "power": None})
    assert (hero.power, hero.state) == ("flight", "done")
