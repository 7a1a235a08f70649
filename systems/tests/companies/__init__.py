"""Tests of companies."""
