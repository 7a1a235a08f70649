-- 0 pending, 1 processing, 2 completed, 3 failed, 4 cancelled
CREATE TABLE classification_queue (
    id VARCHAR(36) PRIMARY KEY,
    title TEXT NOT NULL,
    topics TEXT,
    status INTEGER NOT NULL DEFAULT 0 CHECK (status IN (0, 1, 2, 3, 4)),
    priority INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER,
    error_message TEXT,
    created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
    processed_at DATETIME
);

CREATE INDEX classification_queue_claim ON classification_queue (status, priority DESC, created_at);
