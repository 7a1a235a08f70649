"""The databases. A store claims, settles, renews and rescues rows. The SQL of the hot path is here."""
