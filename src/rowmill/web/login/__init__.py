"""What a login is made of, wherever an application keeps its users: passwords, tokens, cookies, roles, and a limit of
attempts. See docs/guides/web.md."""
