"""Databases. A store claims, settles, renews and rescues rows; the SQL of the hot path is here."""
