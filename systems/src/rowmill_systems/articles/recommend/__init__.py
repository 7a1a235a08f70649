"""The recommendation feed: which articles a reader sees first, and why.

`scoring` rates an article, `variety` puts rated articles in order, `cursor` remembers what was shown, `statements` has
the SQL, and `feed` makes pages of all that. docs: the feed never leaves an article out, and pages through it neither
repeat nor skip one; see `feed` for how.
"""
