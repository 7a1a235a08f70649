"""What users may do."""

from rowmill.web.login.roles import RankedRole


class KnowledgeRole(RankedRole):
    VIEWER = "viewer"
    """Reads and searches."""
    EDITOR = "editor"
    """Uploads, deletes and processes again, too."""
    ADMINISTRATOR = "administrator"
    """May all. In the table it is the column `is_superuser`, whatever the column `role` says."""
