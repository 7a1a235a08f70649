"""The SQLite store, on sqlite3: one writer, WAL."""
