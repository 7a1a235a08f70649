-- claim from the start, stage work; served by rowmill_job_work_ready
WITH rowmill_picked AS MATERIALIZED (
  SELECT CASE WHEN g_fit IS NULL THEN g_all ELSE g_all[1:g_fit] END AS g_keys, CASE WHEN g_fit < cardinality(g_all) THEN -1 WHEN g_heaviest > 8192 THEN 'infinity'::float8 ELSE g_total END AS g_total, g_used_up
  FROM (
    SELECT *, CASE WHEN g_total > $4::float8 THEN (
      SELECT greatest(count(*), $5::boolean::int)::int
      FROM (
        SELECT sum(g_weight) OVER (ROWS UNBOUNDED PRECEDING) AS g_sum
        FROM unnest(g_weights) AS g_weight
      ) AS sums
      WHERE g_sum <= $4::float8
    ) END AS g_fit
    FROM (
      SELECT array_agg(g_key) AS g_all, array_agg(g_weight) AS g_weights, sum(g_weight) AS g_total, max(g_weight) AS g_heaviest, bool_or(g_used_up) AS g_used_up
      FROM (
        SELECT *
        FROM (
          SELECT id AS g_key, g_weight, g_used_up
          FROM (
            SELECT id, (0::bigint + 1000 + coalesce(octet_length(payload::text), 0))::float8 AS g_weight, coalesce(attempts, 0) >= 3 AS g_used_up
            FROM job
            WHERE state IN ('ready')
              AND available_at IS NULL
            ORDER BY available_at NULLS FIRST, id
            LIMIT $2
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS lane
          UNION ALL
          SELECT id AS g_key, g_weight, g_used_up
          FROM (
            SELECT id, (0::bigint + 1000 + coalesce(octet_length(payload::text), 0))::float8 AS g_weight, coalesce(attempts, 0) >= 3 AS g_used_up
            FROM job
            WHERE state IN ('ready')
              AND available_at <= statement_timestamp()
            ORDER BY available_at NULLS FIRST, id
            LIMIT $2
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS lane
        ) AS pick
        LIMIT $2
      ) AS pick
    ) AS p
  ) AS fitting
), rowmill_history AS (
  INSERT INTO rowmill.attempt (queue, key, stage, attempt, worker, ended_at, code, message)
  SELECT 'job', concat_ws('|', t.id::text), 'work', t.attempts, $1::bigint >> 36, statement_timestamp(), 'attempts_used_up', 'it was ready for one more attempt, with all of its 3 used up'
  FROM unnest((
    SELECT CASE WHEN g_used_up THEN g_keys END
    FROM rowmill_picked
  )) WITH ORDINALITY AS given(g_k0, g_place) JOIN job AS t ON t.id = ANY (ARRAY[g_k0])
  WHERE coalesce(t.attempts, 0) >= 3
)
UPDATE job AS t
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'running' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN $1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN statement_timestamp() + $3::float8 * interval '1 second' ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN statement_timestamp() WHEN true THEN finished_at ELSE finished_at END
FROM unnest((
  SELECT g_keys
  FROM rowmill_picked
)) WITH ORDINALITY AS given(g_k0, g_place)
WHERE t.id = ANY (ARRAY[g_k0])
RETURNING t.id, t.account, t.rank, t.state, t.attempts, t.available_at, t.lease, t.leased_until, t.error, t.finished_at, t.payload, CASE WHEN g_place = 1 THEN (
  SELECT g_total
  FROM rowmill_picked
) END AS g_total, CASE WHEN t.lease IS NULL AND t.state IN ('dead') THEN concat_ws('|', t.id::text) END AS rowmill_buried, g_place, CASE WHEN g_place = 1 THEN statement_timestamp() END AS claimed_at;

-- claim from a watermark, stage work; served by rowmill_job_work_ready
WITH rowmill_picked AS MATERIALIZED (
  SELECT CASE WHEN g_fit IS NULL THEN g_all ELSE g_all[1:g_fit] END AS g_keys, CASE WHEN g_fit < cardinality(g_all) THEN -1 WHEN g_heaviest > 8192 THEN 'infinity'::float8 ELSE g_total END AS g_total, g_used_up
  FROM (
    SELECT *, CASE WHEN g_total > $4::float8 THEN (
      SELECT greatest(count(*), $5::boolean::int)::int
      FROM (
        SELECT sum(g_weight) OVER (ROWS UNBOUNDED PRECEDING) AS g_sum
        FROM unnest(g_weights) AS g_weight
      ) AS sums
      WHERE g_sum <= $4::float8
    ) END AS g_fit
    FROM (
      SELECT array_agg(g_key) AS g_all, array_agg(g_weight) AS g_weights, sum(g_weight) AS g_total, max(g_weight) AS g_heaviest, bool_or(g_used_up) AS g_used_up
      FROM (
        SELECT *
        FROM (
          SELECT id AS g_key, g_weight, g_used_up
          FROM (
            SELECT id, (0::bigint + 1000 + coalesce(octet_length(payload::text), 0))::float8 AS g_weight, coalesce(attempts, 0) >= 3 AS g_used_up
            FROM job
            WHERE state IN ('ready')
              AND available_at IS NULL
              AND (id) > ($6)
            ORDER BY available_at NULLS FIRST, id
            LIMIT $2
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS lane
          UNION ALL
          SELECT id AS g_key, g_weight, g_used_up
          FROM (
            SELECT id, (0::bigint + 1000 + coalesce(octet_length(payload::text), 0))::float8 AS g_weight, coalesce(attempts, 0) >= 3 AS g_used_up
            FROM job
            WHERE state IN ('ready')
              AND available_at <= statement_timestamp()
              AND (available_at, id) > ($7, $8)
            ORDER BY available_at NULLS FIRST, id
            LIMIT $2
            FOR NO KEY UPDATE SKIP LOCKED
          ) AS lane
        ) AS pick
        LIMIT $2
      ) AS pick
    ) AS p
  ) AS fitting
), rowmill_history AS (
  INSERT INTO rowmill.attempt (queue, key, stage, attempt, worker, ended_at, code, message)
  SELECT 'job', concat_ws('|', t.id::text), 'work', t.attempts, $1::bigint >> 36, statement_timestamp(), 'attempts_used_up', 'it was ready for one more attempt, with all of its 3 used up'
  FROM unnest((
    SELECT CASE WHEN g_used_up THEN g_keys END
    FROM rowmill_picked
  )) WITH ORDINALITY AS given(g_k0, g_place) JOIN job AS t ON t.id = ANY (ARRAY[g_k0])
  WHERE coalesce(t.attempts, 0) >= 3
)
UPDATE job AS t
SET state = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'dead' WHEN true THEN 'running' ELSE state END,
  attempts = CASE WHEN coalesce(attempts, 0) >= 3 THEN attempts WHEN true THEN coalesce(attempts, 0) + 1 ELSE attempts END,
  lease = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN $1 ELSE lease END,
  leased_until = CASE WHEN coalesce(attempts, 0) >= 3 THEN NULL WHEN true THEN statement_timestamp() + $3::float8 * interval '1 second' ELSE leased_until END,
  error = CASE WHEN coalesce(attempts, 0) >= 3 THEN 'attempts_used_up: it was ready for one more attempt, with all of its 3 used up' WHEN true THEN NULL ELSE error END,
  finished_at = CASE WHEN coalesce(attempts, 0) >= 3 THEN statement_timestamp() WHEN true THEN finished_at ELSE finished_at END
FROM unnest((
  SELECT g_keys
  FROM rowmill_picked
)) WITH ORDINALITY AS given(g_k0, g_place)
WHERE t.id = ANY (ARRAY[g_k0])
RETURNING t.id, t.account, t.rank, t.state, t.attempts, t.available_at, t.lease, t.leased_until, t.error, t.finished_at, t.payload, CASE WHEN g_place = 1 THEN (
  SELECT g_total
  FROM rowmill_picked
) END AS g_total, CASE WHEN t.lease IS NULL AND t.state IN ('dead') THEN concat_ws('|', t.id::text) END AS rowmill_buried, g_place, CASE WHEN g_place = 1 THEN statement_timestamp() END AS claimed_at;

-- settle done, stage work; served by the primary key
WITH settled AS (
  UPDATE job AS t
  SET state = 'done',
    lease = NULL,
    leased_until = NULL,
    error = NULL,
    finished_at = statement_timestamp()
  FROM unnest($5::text::bigint[], $6::text::bigint[]) WITH ORDINALITY AS given(g_lease, g_k0, g_place)
  WHERE t.id = ANY (ARRAY[g_k0::BIGINT])
    AND t.lease = g_lease
  RETURNING g_place
), receipt AS (
  INSERT INTO rowmill.receipt (worker, flush, queue, stage, move, rows, seconds, at, kept)
  SELECT $1::bigint, $2::bigint, 'job', 'work', 'done', count(*), $3::float8, statement_timestamp(), CASE WHEN count(*) < $4::bigint THEN (
    SELECT coalesce(string_agg(g_place::text, ','), '')
    FROM settled
  ) END
  FROM settled
)
SELECT array_agg(g_place)
FROM settled;

-- settle retry, stage work; served by the primary key
WITH settled AS (
  UPDATE job AS t
  SET state = 'ready',
    lease = NULL,
    leased_until = NULL,
    available_at = statement_timestamp() + g_wait * interval '1 second',
    error = g_error
  FROM unnest($5::text::bigint[], $6::float8[], $7::int[], $8::text[], $9::text[], $10::text[], $11::timestamptz[], $12::text[], $13::text[], $14::text::bigint[]) WITH ORDINALITY AS given(g_lease, g_wait, g_attempt, g_code, g_message, g_error, g_claimed, g_row, g_traceback, g_k0, g_place)
  WHERE t.id = ANY (ARRAY[g_k0::BIGINT])
    AND t.lease = g_lease
  RETURNING g_place, g_attempt, g_code, g_message, g_claimed, g_row, g_traceback
), receipt AS (
  INSERT INTO rowmill.receipt (worker, flush, queue, stage, move, rows, seconds, at, kept)
  SELECT $1::bigint, $2::bigint, 'job', 'work', 'again', count(*), $3::float8, statement_timestamp(), CASE WHEN count(*) < $4::bigint THEN (
    SELECT coalesce(string_agg(g_place::text, ','), '')
    FROM settled
  ) END
  FROM settled
), history AS (
  INSERT INTO rowmill.attempt (queue, key, stage, attempt, worker, started_at, ended_at, code, message, traceback)
  SELECT 'job', g_row, 'work', g_attempt, $1::bigint, g_claimed, statement_timestamp(), g_code, g_message, g_traceback
  FROM settled
)
SELECT array_agg(g_place)
FROM settled;

-- settle dead, stage work; served by the primary key
WITH settled AS (
  UPDATE job AS t
  SET state = 'dead',
    lease = NULL,
    leased_until = NULL,
    error = g_error,
    finished_at = statement_timestamp()
  FROM unnest($5::text::bigint[], $6::int[], $7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::text[], $13::text::bigint[]) WITH ORDINALITY AS given(g_lease, g_attempt, g_code, g_message, g_error, g_claimed, g_row, g_traceback, g_k0, g_place)
  WHERE t.id = ANY (ARRAY[g_k0::BIGINT])
    AND t.lease = g_lease
  RETURNING g_place, g_attempt, g_code, g_message, g_claimed, g_row, g_traceback
), receipt AS (
  INSERT INTO rowmill.receipt (worker, flush, queue, stage, move, rows, seconds, at, kept)
  SELECT $1::bigint, $2::bigint, 'job', 'work', 'dead', count(*), $3::float8, statement_timestamp(), CASE WHEN count(*) < $4::bigint THEN (
    SELECT coalesce(string_agg(g_place::text, ','), '')
    FROM settled
  ) END
  FROM settled
), history AS (
  INSERT INTO rowmill.attempt (queue, key, stage, attempt, worker, started_at, ended_at, code, message, traceback)
  SELECT 'job', g_row, 'work', g_attempt, $1::bigint, g_claimed, statement_timestamp(), g_code, g_message, g_traceback
  FROM settled
)
SELECT array_agg(g_place)
FROM settled;

-- settle release, stage work; served by the primary key
WITH settled AS (
  UPDATE job AS t
  SET state = 'ready',
    attempts = greatest(coalesce(attempts, 0) - 1, 0),
    lease = NULL,
    leased_until = NULL,
    available_at = statement_timestamp() + g_wait * interval '1 second'
  FROM unnest($5::text::bigint[], $6::float8[], $7::text::bigint[]) WITH ORDINALITY AS given(g_lease, g_wait, g_k0, g_place)
  WHERE t.id = ANY (ARRAY[g_k0::BIGINT])
    AND t.lease = g_lease
  RETURNING g_place
), receipt AS (
  INSERT INTO rowmill.receipt (worker, flush, queue, stage, move, rows, seconds, at, kept)
  SELECT $1::bigint, $2::bigint, 'job', 'work', 'release', count(*), $3::float8, statement_timestamp(), CASE WHEN count(*) < $4::bigint THEN (
    SELECT coalesce(string_agg(g_place::text, ','), '')
    FROM settled
  ) END
  FROM settled
)
SELECT array_agg(g_place)
FROM settled;

-- settle one, stage work; served by the primary key
WITH settled AS (
  UPDATE job AS t
  SET state = 'done',
    lease = NULL,
    leased_until = NULL,
    error = NULL,
    finished_at = statement_timestamp()
  FROM (
    VALUES ($5::bigint, $6::bigint, 1::bigint)
  ) AS given(g_lease, g_k0, g_place)
  WHERE t.id = ANY (ARRAY[g_k0::BIGINT])
    AND t.lease = g_lease
  RETURNING g_place
), receipt AS (
  INSERT INTO rowmill.receipt (worker, flush, queue, stage, move, rows, seconds, at, kept)
  SELECT $1::bigint, $2::bigint, 'job', 'work', 'done', count(*), $3::float8, statement_timestamp(), CASE WHEN count(*) < $4::bigint THEN (
    SELECT coalesce(string_agg(g_place::text, ','), '')
    FROM settled
  ) END
  FROM settled
)
SELECT array_agg(g_place)
FROM settled;

-- settle around locked rows, stage work; served by the primary key
WITH settled AS (
  UPDATE job AS t
  SET state = 'done',
    lease = NULL,
    leased_until = NULL,
    error = NULL,
    finished_at = statement_timestamp()
  FROM (
    SELECT g_lease, g_k0, g_place
    FROM unnest($5::text::bigint[], $6::text::bigint[]) WITH ORDINALITY AS given(g_lease, g_k0, g_place) JOIN job AS t ON t.id = ANY (ARRAY[g_k0::BIGINT]) AND t.lease = g_lease
    FOR NO KEY UPDATE OF t SKIP LOCKED
  ) AS free
  WHERE t.id = ANY (ARRAY[g_k0::BIGINT])
    AND t.lease = g_lease
  RETURNING g_place
), receipt AS (
  INSERT INTO rowmill.receipt (worker, flush, queue, stage, move, rows, seconds, at, kept)
  SELECT $1::bigint, $2::bigint, 'job', 'work', 'done', count(*), $3::float8, statement_timestamp(), CASE WHEN count(*) < $4::bigint THEN (
    SELECT coalesce(string_agg(g_place::text, ','), '')
    FROM settled
  ) END
  FROM settled
)
SELECT array_agg(g_place)
FROM settled;

-- renew, stage work; served by the primary key
UPDATE job AS t
SET leased_until = statement_timestamp() + $1::float8 * interval '1 second'
FROM (
  SELECT g_lease, g_k0, g_place
  FROM unnest($2::text::bigint[], $3::text::bigint[]) WITH ORDINALITY AS given(g_lease, g_k0, g_place) JOIN job AS t ON t.id = ANY (ARRAY[g_k0::BIGINT]) AND t.lease = g_lease
  FOR NO KEY UPDATE OF t SKIP LOCKED
) AS free
WHERE t.id = ANY (ARRAY[g_k0::BIGINT])
  AND t.lease = g_lease
RETURNING g_place;

-- rescue: find expired leases, stage work; served by the partial index on running rows
SELECT job.id, job.lease AS held, coalesce(job.attempts, $1::INTEGER) AS made
FROM job
WHERE state IN ('running')
  AND job.leased_until < statement_timestamp()
ORDER BY job.leased_until
LIMIT $2::INTEGER
FOR NO KEY UPDATE SKIP LOCKED;

-- rescue: give back, stage work; served by the primary key
UPDATE job
SET state='ready',
  available_at=statement_timestamp(),
  lease=NULL,
  leased_until=NULL,
  error='lease_expired'
WHERE job.id IN ($1)
  AND job.state IN ('running')
  AND job.leased_until < statement_timestamp()
  AND NOT (coalesce(attempts, 0) >= 3)
RETURNING job.id;

-- rescue: bury, stage work; served by the primary key
UPDATE job
SET state='dead',
  lease=NULL,
  leased_until=NULL,
  error='lease_expired_max_attempts',
  finished_at=statement_timestamp()
WHERE job.id IN ($1)
  AND job.state IN ('running')
  AND job.leased_until < statement_timestamp()
  AND coalesce(attempts, 0) >= 3
RETURNING job.id;
