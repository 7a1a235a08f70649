"""Generated documents with known answers. The same seed gives the same documents."""

from demos.papers.make import make_papers
from demos.papers.paper import Paper

__all__ = ["Paper", "make_papers"]
