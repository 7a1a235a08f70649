"""Pages and endpoints of systems: layout and components, errors, guard, server. See docs/guides/web.md."""
