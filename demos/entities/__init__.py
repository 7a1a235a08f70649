"""Entities at work: a world of things that do not exist, and services that know it, well or badly."""
