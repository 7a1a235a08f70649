"""Services that run beside a worker's stages: heartbeats, rescue of expired leases, retention, cleanup."""
