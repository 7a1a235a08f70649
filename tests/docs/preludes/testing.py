from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import rowmill as rm


class Base(DeclarativeBase): ...


class Article(rm.QueueMixin, Base):
    __tablename__ = "article"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]


mill = rm.Mill("sqlite:///never-opened.db")
articles = mill.queue(Article)


@articles.handler()
async def classify(article: rm.Lease[Article]) -> None:
    if article.row.title == "flaky" and article.attempt == 1:
        raise rm.TransientError("try later", code="busy")
