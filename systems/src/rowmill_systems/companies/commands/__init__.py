"""The commands of companies."""
