"""The PostgreSQL store, on asyncpg."""
