"""Upkeep: every worker gives signs of life; one of the fleet rescues and tidies for all."""
