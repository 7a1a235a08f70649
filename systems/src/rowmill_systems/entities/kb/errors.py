"""What is wrong with a file."""

import rowmill as rm


class BadKnowledgeBase(rm.PermanentError):
    """A file is no knowledge base, or none can be made of it. The message names the file, the lines and the fix."""

    code = "bad_knowledge_base"
