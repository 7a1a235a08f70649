"""An application with pages, for tests of `rowmill.web`."""
