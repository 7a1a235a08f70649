"""The package that the reader's application is in."""

__package__ = "tests.web.package"
