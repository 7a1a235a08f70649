import sqlalchemy as sa

_moment = sa.DateTime(timezone=True)
messages_table = sa.Table(
    "messages", sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("entity", sa.Text),
    sa.Column("body", sa.JSON),
    sa.Column("created_at", _moment, server_default=sa.func.now()),
    sa.Column("processed_at", _moment),
    sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
    sa.Column("problem", sa.Text),
    sa.Column("state", sa.Text, nullable=False, server_default="new"),
    sa.Column("available_at", _moment),
    sa.Column("lease", sa.BigInteger),
    sa.Column("leased_until", _moment),
)  # fmt: skip
