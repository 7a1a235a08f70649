"""Who may do what: users, their logins, and the tokens of programs."""
