-- claim oldest free, stage work; served by rowmill_job_work_ready
UPDATE job
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'running' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN ?1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', (?3) || ' seconds') ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') WHEN true THEN finished_at ELSE finished_at END
WHERE id IN (
  SELECT rowmill_candidate.id AS id
  FROM (
    SELECT *
    FROM (
      SELECT *, row_number() OVER (PARTITION BY account ORDER BY id) AS rowmill_turn
      FROM (
        SELECT *, row_number() OVER () AS rowmill_place
        FROM (
          SELECT *
          FROM (
            SELECT id, account
            FROM job INDEXED BY rowmill_job_work_ready
            WHERE state IN ('ready')
              AND available_at IS NULL
            ORDER BY available_at, id
            LIMIT (?2) * 2 + 200
          ) AS lane_0
          UNION ALL
          SELECT *
          FROM (
            SELECT id, account
            FROM job INDEXED BY rowmill_job_work_ready
            WHERE state IN ('ready')
              AND available_at <= strftime('%Y-%m-%d %H:%M:%f000', 'now')
            ORDER BY available_at, id
            LIMIT (?2) * 2 + 200
          ) AS lane_1
        ) AS oldest
      ) AS placed
    ) AS turned
    WHERE rowmill_turn = 1 OR account IS NULL
    ORDER BY rowmill_place
  ) AS rowmill_candidate
  WHERE rowmill_candidate.account IS NULL OR (rowmill_candidate.id) = (
    SELECT id
    FROM job INDEXED BY rowmill_job_in_order
    WHERE state IN ('ready', 'running', 'dead')
      AND account >= rowmill_candidate.account
    ORDER BY account, (state IN ('running')) DESC, id
    LIMIT 1
  )
  ORDER BY rowmill_place
  LIMIT ?2
)
RETURNING id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload, state IN ('dead');

-- claim free heads, stage work; served by rowmill_job_work_ready
UPDATE job
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'running' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN ?1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', (?3) || ' seconds') ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') WHEN true THEN finished_at ELSE finished_at END
WHERE id IN (
  WITH RECURSIVE rowmill_every(p) AS (
    SELECT p
    FROM (
      SELECT account AS p
      FROM job INDEXED BY rowmill_job_in_order
      WHERE state IN ('ready', 'running', 'dead')
        AND account IS NOT NULL
      ORDER BY account
      LIMIT 1
    ) AS top
    WHERE (EXISTS (
      SELECT 1
      FROM job INDEXED BY rowmill_job_work_ready
      WHERE state IN ('ready')
        AND available_at IS NULL
      ORDER BY available_at, id
      LIMIT 1 OFFSET (?2) * 2 + 200
    ) OR EXISTS (
      SELECT 1
      FROM job INDEXED BY rowmill_job_work_ready
      WHERE state IN ('ready')
        AND available_at <= strftime('%Y-%m-%d %H:%M:%f000', 'now')
      ORDER BY available_at, id
      LIMIT 1 OFFSET (?2) * 2 + 200
    ))
    UNION ALL
    SELECT (
      SELECT account
      FROM job INDEXED BY rowmill_job_in_order
      WHERE state IN ('ready', 'running', 'dead')
        AND account > rowmill_every.p
      ORDER BY account
      LIMIT 1
    )
    FROM rowmill_every
    WHERE rowmill_every.p IS NOT NULL
  )
  SELECT id
  FROM (
    SELECT (
      SELECT CASE WHEN state IN ('ready') AND (available_at IS NULL OR available_at <= strftime('%Y-%m-%d %H:%M:%f000', 'now')) THEN id END
      FROM job INDEXED BY rowmill_job_in_order
      WHERE state IN ('ready', 'running', 'dead')
        AND account >= rowmill_every.p
      ORDER BY account, (state IN ('running')) DESC, id
      LIMIT 1
    ) AS id
    FROM rowmill_every
    WHERE p IS NOT NULL
  ) AS head
  WHERE id IS NOT NULL
  LIMIT ?2
)
RETURNING id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload, state IN ('dead');

-- claim without key, stage work; served by rowmill_job_work_ready
UPDATE job
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'running' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN ?1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', (?3) || ' seconds') ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') WHEN true THEN finished_at ELSE finished_at END
WHERE id IN (
  SELECT id
  FROM job INDEXED BY rowmill_job_in_order
  WHERE state IN ('ready', 'running', 'dead')
    AND state IN ('ready')
    AND account IS NULL
    AND (available_at IS NULL OR available_at <= strftime('%Y-%m-%d %H:%M:%f000', 'now'))
    AND (EXISTS (
    SELECT 1
    FROM job INDEXED BY rowmill_job_work_ready
    WHERE state IN ('ready')
      AND available_at IS NULL
    ORDER BY available_at, id
    LIMIT 1 OFFSET (?2) * 2 + 200
  ) OR EXISTS (
    SELECT 1
    FROM job INDEXED BY rowmill_job_work_ready
    WHERE state IN ('ready')
      AND available_at <= strftime('%Y-%m-%d %H:%M:%f000', 'now')
    ORDER BY available_at, id
    LIMIT 1 OFFSET (?2) * 2 + 200
  ))
  ORDER BY account, (state IN ('running')) DESC, id
  LIMIT ?2
)
RETURNING id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload, state IN ('dead');

-- settle done, stage work; served by the primary key
UPDATE job
SET state = 'done',
  lease = NULL,
  leased_until = NULL,
  error = NULL,
  finished_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE id = :k0
  AND lease = :lease;

-- settle retry, stage work; served by the primary key
UPDATE job
SET state = 'ready',
  lease = NULL,
  leased_until = NULL,
  available_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:wait) || ' seconds'),
  error = :error
WHERE id = :k0
  AND lease = :lease;

-- settle dead, stage work; served by the primary key
UPDATE job
SET state = 'dead',
  lease = NULL,
  leased_until = NULL,
  error = :error,
  finished_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE id = :k0
  AND lease = :lease;

-- settle release, stage work; served by the primary key
UPDATE job
SET state = 'ready',
  attempts = max(coalesce(attempts, 0) - 1, 0),
  lease = NULL,
  leased_until = NULL,
  available_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:wait) || ' seconds')
WHERE id = :k0
  AND lease = :lease;

-- renew, stage work; served by the primary key
UPDATE job
SET leased_until = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:seconds) || ' seconds')
WHERE id = :k0
  AND lease = :lease;

-- rescue: find expired leases, stage work; served by the partial index on running rows
SELECT job.id, job.lease AS held, coalesce(job.attempts, ?) AS made
FROM job
WHERE state IN ('running')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
ORDER BY job.leased_until
LIMIT ? OFFSET ?;

-- rescue: give back, stage work; served by the primary key
UPDATE job
SET state='ready',
  available_at=strftime('%Y-%m-%d %H:%M:%f000', 'now'),
  lease=NULL,
  leased_until=NULL,
  error='lease_expired'
WHERE job.id IN (?)
  AND job.state IN ('running')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
  AND NOT (coalesce(attempts, 0) >= 3) = 1
RETURNING job.id;

-- rescue: bury, stage work; served by the primary key
UPDATE job
SET state='dead',
  lease=NULL,
  leased_until=NULL,
  error='lease_expired_max_attempts',
  finished_at=strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE job.id IN (?)
  AND job.state IN ('running')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
  AND coalesce(attempts, 0) >= 3 = 1
RETURNING job.id;
