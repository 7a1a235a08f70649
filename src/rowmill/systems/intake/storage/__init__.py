"""Where the bytes of files are: a folder, or a bucket of S3."""

from rowmill.systems.intake.storage.keys import key_of
from rowmill.systems.intake.storage.open import open_storage
from rowmill.systems.intake.storage.port import Download, Facts, Incoming, Storage, Stored

__all__ = ["Download", "Facts", "Incoming", "Storage", "Stored", "key_of", "open_storage"]
