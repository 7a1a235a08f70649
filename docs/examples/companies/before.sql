CREATE SCHEMA enterprise;

CREATE TABLE enterprise.enrichment_requests (
    id bigserial PRIMARY KEY,
    raw_name text NOT NULL,
    normalized_name text NOT NULL,
    status varchar(20) NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'processing', 'done', 'failed')),
    attempts integer NOT NULL DEFAULT 0,
    next_retry_at timestamptz,
    last_error varchar(200),
    company_id text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE UNIQUE INDEX one_open_request ON enterprise.enrichment_requests (normalized_name)
    WHERE status IN ('pending', 'processing');

CREATE INDEX enrichment_requests_status ON enterprise.enrichment_requests (status, created_at);
