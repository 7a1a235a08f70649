"""From bytes to pages of text, with the place of every line."""
