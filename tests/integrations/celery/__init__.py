"""Rowmill inside Celery."""
