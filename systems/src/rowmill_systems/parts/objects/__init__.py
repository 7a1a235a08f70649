"""Store files by their hash, in a folder or in a bucket of S3.

    from rowmill_systems.parts.objects import open_storage

    storage = open_storage(folder)      # or s3://bucket/prefix?endpoint_url=…&region=…
    async with storage.receive(most=1_000_000) as incoming:
        await incoming.write(b"some bytes")
        stored = await incoming.keep("customer-7", "invoices")
    assert await storage.get(stored.key, most=1_000_000) == b"some bytes"
    await storage.close()

An object is visible whole or not at all, and never changes: its key has the hash of its bytes.
"""

from rowmill_systems.parts.objects.keys import key_of
from rowmill_systems.parts.objects.open import open_storage
from rowmill_systems.parts.objects.port import Download, Facts, Incoming, Storage, Stored

__all__ = ["Download", "Facts", "Incoming", "Storage", "Stored", "key_of", "open_storage"]
