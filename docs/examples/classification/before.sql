-- 0 pending, 1 processing, 2 completed, 3 failed, 4 cancelled
CREATE TABLE classification_queue (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    title text NOT NULL,
    topics text,
    status smallint NOT NULL DEFAULT 0 CHECK (status IN (0, 1, 2, 3, 4)),
    priority integer NOT NULL DEFAULT 0,
    retry_count integer,
    error_message text,
    created_at timestamptz NOT NULL DEFAULT now(),
    processed_at timestamptz
);

CREATE INDEX classification_queue_claim ON classification_queue (status, priority DESC, created_at);
