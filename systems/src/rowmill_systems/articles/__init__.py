"""Articles: feeds are synced, their articles are classified in the background, and a reader gets those that fit."""
