"""Errors of knowledge bases."""

import rowmill as rm


class BadKnowledgeBase(rm.PermanentError):
    """A file is not a knowledge base, or none can be built from it.

    The message names the file, the lines and the fix.
    """

    code = "bad_knowledge_base"
