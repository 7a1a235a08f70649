"""Settings of our sessions on PostgreSQL."""

ALIVE = {
    "application_name": "rowmill",
    # A worker whose machine vanished must not keep rows locked for hours.
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    # Words stand in statements as literals. Where it is off, a backslash at the end of one would swallow its quote.
    "standard_conforming_strings": "on",
}
"""Settings of every session, those of handlers' own transactions too."""
IMPATIENT = {
    **ALIVE,
    # Our own transactions take milliseconds. Of a process that is frozen in the middle of one, the server waits no
    # longer than this for the rest.
    "idle_in_transaction_session_timeout": "60000",
}
SESSION = {
    # A worker's plans must not depend on statistics: a table that was empty when a plan was cached and is
    # full now would be scanned from end to end for every claim. With these, only index plans are left.
    "enable_seqscan": "off",
    "enable_sort": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A stricter one, as a database or a role may have it, ends in errors where another worker was faster.
    "default_transaction_isolation": "read committed",
    # Compiling a statement of a millisecond takes longer than running it.
    "jit": "off",
    **IMPATIENT,
}
