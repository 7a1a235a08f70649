-- claim at once, stage link; served by rowmill_job_link_ready
UPDATE job
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'linking' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN ?1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', (?3) || ' seconds') ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') WHEN true THEN finished_at ELSE finished_at END
WHERE id IN (
  SELECT id
  FROM job INDEXED BY rowmill_job_link_ready
  WHERE state IN ('new')
    AND available_at IS NULL
    AND +id IS NOT NULL
  ORDER BY id
  LIMIT ?2
)
RETURNING id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload, state IN ('dead');

-- claim timed, stage link; served by rowmill_job_link_ready
UPDATE job
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'linking' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN ?1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', (?3) || ' seconds') ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') WHEN true THEN finished_at ELSE finished_at END
WHERE id IN (
  SELECT id
  FROM job INDEXED BY rowmill_job_link_ready
  WHERE state IN ('new')
    AND available_at <= strftime('%Y-%m-%d %H:%M:%f000', 'now')
    AND +id IS NOT NULL
  ORDER BY available_at, id
  LIMIT ?2
)
RETURNING id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload, state IN ('dead');

-- settle done, stage link; served by the primary key
UPDATE job
SET state = 'done',
  lease = NULL,
  leased_until = NULL,
  error = NULL,
  finished_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE id = :k0
  AND lease = :lease;

-- settle retry, stage link; served by the primary key
UPDATE job
SET state = 'new',
  lease = NULL,
  leased_until = NULL,
  available_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:wait) || ' seconds'),
  error = :error
WHERE id = :k0
  AND lease = :lease;

-- settle dead, stage link; served by the primary key
UPDATE job
SET state = 'dead',
  lease = NULL,
  leased_until = NULL,
  error = :error,
  finished_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE id = :k0
  AND lease = :lease;

-- settle release, stage link; served by the primary key
UPDATE job
SET state = 'new',
  attempts = max(coalesce(attempts, 0) - 1, 0),
  lease = NULL,
  leased_until = NULL,
  available_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:wait) || ' seconds')
WHERE id = :k0
  AND lease = :lease;

-- renew, stage link; served by the primary key
UPDATE job
SET leased_until = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:seconds) || ' seconds')
WHERE id = :k0
  AND lease = :lease;

-- rescue: find expired leases, stage link; served by the partial index on running rows
SELECT job.id, job.lease AS held, coalesce(job.attempts, ?) AS made
FROM job
WHERE state IN ('linking')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
ORDER BY job.leased_until
LIMIT ? OFFSET ?;

-- rescue: give back, stage link; served by the primary key
UPDATE job
SET state='new',
  available_at=strftime('%Y-%m-%d %H:%M:%f000', 'now'),
  lease=NULL,
  leased_until=NULL,
  error='lease_expired'
WHERE job.id IN (?)
  AND job.state IN ('linking')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
  AND NOT (coalesce(attempts, 0) >= 3) = 1
RETURNING job.id;

-- rescue: bury, stage link; served by the primary key
UPDATE job
SET state='dead',
  lease=NULL,
  leased_until=NULL,
  error='lease_expired_max_attempts',
  finished_at=strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE job.id IN (?)
  AND job.state IN ('linking')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
  AND coalesce(attempts, 0) >= 3 = 1
RETURNING job.id;

-- claim at once, stage save; served by rowmill_job_save_ready
UPDATE job
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'saving' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN ?1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', (?3) || ' seconds') ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') WHEN true THEN finished_at ELSE finished_at END
WHERE id IN (
  SELECT id
  FROM job INDEXED BY rowmill_job_save_ready
  WHERE state IN ('linked')
    AND available_at IS NULL
    AND +id IS NOT NULL
  ORDER BY id
  LIMIT ?2
)
RETURNING id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload, state IN ('dead');

-- claim timed, stage save; served by rowmill_job_save_ready
UPDATE job
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'saving' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN ?1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN strftime('%Y-%m-%d %H:%M:%f000', 'now', (?3) || ' seconds') ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') WHEN true THEN finished_at ELSE finished_at END
WHERE id IN (
  SELECT id
  FROM job INDEXED BY rowmill_job_save_ready
  WHERE state IN ('linked')
    AND available_at <= strftime('%Y-%m-%d %H:%M:%f000', 'now')
    AND +id IS NOT NULL
  ORDER BY available_at, id
  LIMIT ?2
)
RETURNING id, account, rank, state, attempts, available_at, lease, leased_until, error, finished_at, payload, state IN ('dead');

-- settle done, stage save; served by the primary key
UPDATE job
SET state = 'done',
  lease = NULL,
  leased_until = NULL,
  error = NULL,
  finished_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE id = :k0
  AND lease = :lease;

-- settle retry, stage save; served by the primary key
UPDATE job
SET state = 'linked',
  lease = NULL,
  leased_until = NULL,
  available_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:wait) || ' seconds'),
  error = :error
WHERE id = :k0
  AND lease = :lease;

-- settle dead, stage save; served by the primary key
UPDATE job
SET state = 'dead',
  lease = NULL,
  leased_until = NULL,
  error = :error,
  finished_at = strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE id = :k0
  AND lease = :lease;

-- settle release, stage save; served by the primary key
UPDATE job
SET state = 'linked',
  attempts = max(coalesce(attempts, 0) - 1, 0),
  lease = NULL,
  leased_until = NULL,
  available_at = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:wait) || ' seconds')
WHERE id = :k0
  AND lease = :lease;

-- renew, stage save; served by the primary key
UPDATE job
SET leased_until = strftime('%Y-%m-%d %H:%M:%f000', 'now', (:seconds) || ' seconds')
WHERE id = :k0
  AND lease = :lease;

-- rescue: find expired leases, stage save; served by the partial index on running rows
SELECT job.id, job.lease AS held, coalesce(job.attempts, ?) AS made
FROM job
WHERE state IN ('saving')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
ORDER BY job.leased_until
LIMIT ? OFFSET ?;

-- rescue: give back, stage save; served by the primary key
UPDATE job
SET state='linked',
  available_at=strftime('%Y-%m-%d %H:%M:%f000', 'now'),
  lease=NULL,
  leased_until=NULL,
  error='lease_expired'
WHERE job.id IN (?)
  AND job.state IN ('saving')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
  AND NOT (coalesce(attempts, 0) >= 3) = 1
RETURNING job.id;

-- rescue: bury, stage save; served by the primary key
UPDATE job
SET state='dead',
  lease=NULL,
  leased_until=NULL,
  error='lease_expired_max_attempts',
  finished_at=strftime('%Y-%m-%d %H:%M:%f000', 'now')
WHERE job.id IN (?)
  AND job.state IN ('saving')
  AND job.leased_until < strftime('%Y-%m-%d %H:%M:%f000', 'now')
  AND coalesce(attempts, 0) >= 3 = 1
RETURNING job.id;
