CREATE TABLE enrichment_requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    raw_name TEXT NOT NULL,
    normalized_name TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'processing', 'done', 'failed')),
    attempts INTEGER NOT NULL DEFAULT 0,
    next_retry_at DATETIME,
    last_error TEXT,
    company_id TEXT,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE UNIQUE INDEX one_open_request ON enrichment_requests (normalized_name)
    WHERE status IN ('pending', 'processing');

CREATE INDEX enrichment_requests_status ON enrichment_requests (status, created_at);
