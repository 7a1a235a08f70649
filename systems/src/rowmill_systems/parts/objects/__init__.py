"""Where the bytes of files are: a folder, or a bucket of S3."""

from rowmill_systems.parts.objects.keys import key_of
from rowmill_systems.parts.objects.open import open_storage
from rowmill_systems.parts.objects.port import Download, Facts, Incoming, Storage, Stored

__all__ = ["Download", "Facts", "Incoming", "Storage", "Stored", "key_of", "open_storage"]
