"""Documents with known answers: made by chance, the same for the same seed."""

from demos.papers.make import make_papers
from demos.papers.paper import Paper

__all__ = ["Paper", "make_papers"]
