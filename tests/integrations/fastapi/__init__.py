"""A worker inside a web application."""
