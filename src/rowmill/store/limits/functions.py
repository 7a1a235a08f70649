"""The PostgreSQL functions that grant permits and take them back.

They are functions so that what was granted so far is read after the lock is had, in one round trip, and so that no lock
ever waits for a client. `rowmill.store.limits.sqlite` does the same on SQLite; one suite of tests holds both to it.
"""

from rowmill.store.limits import asks

LOCK = """SELECT * INTO l FROM rowmill.limiter WHERE name = p_name AND key = p_key FOR UPDATE;
  IF NOT FOUND THEN
    INSERT INTO rowmill.limiter (name, key) VALUES (p_name, p_key) ON CONFLICT DO NOTHING;
    SELECT * INTO l FROM rowmill.limiter WHERE name = p_name AND key = p_key FOR UPDATE;
  END IF;"""

TAKE = """
CREATE OR REPLACE FUNCTION rowmill.limit_take(
  p_name text, p_key text, p_asked int, p_tickets bigint[], p_amounts bigint[], p_calls bigint, p_reach float8,
  p_width float8, p_late float8, p_slots int, p_budget bigint, p_spans text[], p_bounds float8[], p_spent boolean,
  p_lease float8, p_hold int, p_horizon float8, p_at float8, p_breaker boolean,
  OUT o_granted int, OUT o_kept int, OUT o_now float8, OUT o_line float8, OUT o_step float8, OUT o_soon float8,
  OUT o_reason text, OUT o_bucket bigint, OUT o_late float8, OUT o_failures int, OUT o_probe boolean, OUT o_span text
) LANGUAGE plpgsql AS $$
DECLARE
  l rowmill.limiter%ROWTYPE;
  asked int := p_asked;
  room bigint := p_asked;
  since float8;            -- from when on there may be room again
  whole_off boolean := false;
  whole_parked float8 := 0;
  counted bigint := 0;
  oldest bigint;
  numbers int[];
  spent bigint;
  purse bigint;
  place int;
BEGIN
  {LOCK}
  IF p_key <> '' THEN
    SELECT off, parked_until INTO whole_off, whole_parked FROM rowmill.limiter WHERE name = p_name AND key = '';
  END IF;
  o_now := coalesce(p_at, extract(epoch FROM clock_timestamp())::float8);
  o_probe := false;
  o_step := CASE WHEN p_calls > 0 THEN (p_reach + p_width) / p_calls
                 WHEN p_slots > 0 THEN greatest(l.held, 0.001) / p_slots ELSE 0.01 END;
  o_soon := 0;
  o_late := 0;

  -- The provider.
  IF l.off OR coalesce(whole_off, false) THEN
    room := 0; o_reason := 'off'; since := (floor(o_now / {FAR}) + 1) * {FAR};
  ELSIF greatest(l.parked_until, coalesce(whole_parked, 0)) > o_now THEN
    room := 0; o_reason := 'parked'; since := greatest(l.parked_until, coalesce(whole_parked, 0));
  ELSIF p_breaker AND l.pause > 0 THEN
    -- While the one call is under way that is let through, the others look again after another pause.
    since := CASE WHEN l.open_until > o_now THEN l.open_until ELSE (floor(o_now / l.pause) + 1) * l.pause END;
    IF greatest(l.open_until, l.probe_until) > o_now THEN
      room := 0; o_reason := 'open';
    ELSE
      o_probe := true;
      IF room > 1 THEN room := 1; o_reason := 'open'; END IF;
    END IF;
  END IF;

  -- Calls in the window, by buckets, the newest first.
  IF p_calls > 0 THEN
    SELECT * INTO l.head, l.counts FROM rowmill.limit_counts(l.head, l.counts, l.width, o_now, p_reach, p_width);
    l.width := p_width;
    oldest := floor((o_now - p_reach) / p_width)::bigint;
    SELECT coalesce(sum(c), 0) INTO counted FROM unnest(l.counts[1 : (l.head - oldest + 1)::int]) AS c;
    IF counted + p_calls / 2 < p_calls THEN l.turn := least(l.turn, o_now); END IF;  -- nobody presses: no line
    IF p_calls - counted < room THEN
      room := greatest(p_calls - counted, 0); o_reason := 'rate';
      SELECT max(n) INTO place FROM unnest(l.counts[1 : (l.head - oldest + 1)::int]) WITH ORDINALITY AS u(c, n)
        WHERE c > 0;
      since := (l.head - coalesce(place, 1) + 2) * p_width + p_reach;
    END IF;
  END IF;

  IF p_slots > 0 OR p_budget > 0 THEN
    DELETE FROM rowmill.ticket WHERE name = p_name AND key = p_key AND done AND until <= o_now;
    -- What crashed processes held.
    WITH gone AS (DELETE FROM rowmill.ticket WHERE name = p_name AND key = p_key AND NOT done AND until <= o_now
                  RETURNING span, amount)
    INSERT INTO rowmill.spending AS s (name, key, span, used, noted_at)
      SELECT p_name, p_key, span, sum(amount), o_now FROM gone WHERE p_spent AND span IS NOT NULL GROUP BY span
      ON CONFLICT (name, key, span) DO UPDATE SET used = s.used + excluded.used, noted_at = excluded.noted_at;
  END IF;

  -- Slots.
  IF p_slots > 0 AND room > 0 THEN
    numbers := ARRAY(SELECT g FROM generate_series(1, p_slots) AS g WHERE g NOT IN (
      SELECT slot FROM rowmill.ticket WHERE name = p_name AND key = p_key AND slot IS NOT NULL) ORDER BY g LIMIT room);
    IF cardinality(numbers) < room THEN
      room := cardinality(numbers); o_reason := 'slots';
      since := o_now + CASE WHEN l.held > 0 THEN l.held ELSE {USUAL} END / p_slots;
      o_step := greatest(l.held, 0.001) / p_slots;
    END IF;
  END IF;

  -- The budget.
  IF p_budget > 0 THEN
    FOR i IN 1 .. cardinality(p_spans) LOOP
      IF o_now >= p_bounds[i] AND o_now < p_bounds[i + 1] THEN o_span := p_spans[i]; place := i; END IF;
    END LOOP;
    IF o_span IS NULL THEN
      o_granted := 0; o_kept := 0; o_reason := 'astray'; RETURN;
    END IF;
    SELECT coalesce(sum(used), 0) INTO spent FROM rowmill.spending
      WHERE name = p_name AND key = p_key AND span = o_span;
    SELECT p_budget - spent - coalesce(sum(amount), 0) INTO purse FROM rowmill.ticket
      WHERE name = p_name AND key = p_key AND NOT done AND span = o_span;
    FOR i IN 1 .. room LOOP
      purse := purse - p_amounts[i];
      CONTINUE WHEN purse >= 0;
      room := i - 1;
      IF spent + p_amounts[i] <= p_budget THEN  -- calls under way may cost less than is reserved for them
        o_reason := 'reserved'; since := o_now + CASE WHEN l.held > 0 THEN l.held ELSE {USUAL} END;
      ELSE
        o_reason := 'budget'; since := p_bounds[place + 1];
        IF since = 'infinity' THEN since := (floor(o_now / {FAR}) + 1) * {FAR}; END IF;
      END IF;
      EXIT;
    END LOOP;
  END IF;

  o_granted := room;
  o_probe := o_probe AND room > 0;
  IF o_probe THEN l.probe_until := o_now + p_lease; END IF;
  IF p_calls > 0 AND room > 0 THEN
    -- Far from the limit, permits may be used later, and are counted as if they had been granted then.
    IF p_late > 0 AND (counted + room) * 2 <= p_calls THEN
      o_late := p_late;
      SELECT * INTO l.head, l.counts
        FROM rowmill.limit_counts(l.head, l.counts, l.width, o_now + p_late, p_reach + p_late, p_width);
    END IF;
    o_bucket := l.head;
    l.counts[1] := l.counts[1] + room;
  END IF;
  IF room > 0 AND (p_slots > 0 OR p_budget > 0) THEN
    INSERT INTO rowmill.ticket (id, name, key, slot, span, amount, until)
      SELECT p_tickets[i], p_name, p_key, CASE WHEN p_slots > 0 THEN numbers[i] END, o_span,
             CASE WHEN p_budget > 0 THEN p_amounts[i] ELSE 0 END, o_now + p_lease FROM generate_series(1, room) AS i;
  END IF;

  -- Those who wait: a virtual time that each of them moves on, so that they come back one by one.
  o_kept := 0; o_line := o_now;
  IF room < asked THEN
    o_soon := greatest(since - o_now, 0);
    IF o_soon <= p_horizon THEN o_kept := least(asked - room, p_hold); END IF;
    IF o_reason IN ('rate', 'slots', 'reserved') THEN
      o_line := greatest(l.turn, since);
      IF asked - room > o_kept THEN l.turn := o_line + o_step * (asked - room - o_kept); END IF;
    ELSE
      IF l.later_from <> since THEN l.later := since; l.later_from := since; END IF;
      o_line := l.later;
      l.later := o_line + o_step * (asked - room - o_kept);
    END IF;
  ELSE
    o_reason := NULL;
  END IF;
  o_failures := l.failures;
  UPDATE rowmill.limiter SET seen = o_now, width = l.width, head = l.head, counts = l.counts, turn = l.turn,
    later = l.later, later_from = l.later_from, probe_until = l.probe_until WHERE name = p_name AND key = p_key;
END $$
"""

COUNTS = """
CREATE OR REPLACE FUNCTION rowmill.limit_counts(
  p_head bigint, p_counts bigint[], p_from float8, p_now float8, p_reach float8, p_width float8,
  OUT o_head bigint, OUT o_counts bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
  newest bigint := floor(p_now / p_width)::bigint;
  kept int := ceil(p_reach / p_width)::int + 2;
  spot bigint;
BEGIN
  o_head := p_head; o_counts := p_counts;
  IF p_from <> p_width AND p_from > 0 THEN
    -- Another period than before. A count goes to the last bucket that ends with its own, or holds it.
    o_head := rowmill.limit_bucket(p_head, p_from, p_width);
    o_counts := array_fill(0::bigint, ARRAY[least(kept, (o_head - rowmill.limit_bucket(
      p_head - cardinality(p_counts) + 1, p_from, p_width) + 1)::int)]);
    FOR i IN 1 .. cardinality(p_counts) LOOP
      spot := o_head - rowmill.limit_bucket(p_head - i + 1, p_from, p_width) + 1;
      IF spot <= cardinality(o_counts) THEN o_counts[spot] := o_counts[spot] + p_counts[i]; END IF;
    END LOOP;
  END IF;
  IF p_from = 0 OR newest - o_head >= kept THEN
    o_counts := array_fill(0::bigint, ARRAY[1]); o_head := newest;
  ELSIF o_head - newest > kept THEN
    o_head := newest;  -- the clock was set back by far: what was counted is taken for new
  ELSIF newest > o_head THEN
    o_counts := (array_fill(0::bigint, ARRAY[(newest - o_head)::int]) || o_counts)[1 : kept]; o_head := newest;
  END IF;
END $$
"""

BUCKET = """
CREATE OR REPLACE FUNCTION rowmill.limit_bucket(p_bucket bigint, p_from float8, p_to float8) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN p_to >= p_from THEN floor(p_bucket / (p_to / p_from))::bigint
              ELSE p_bucket * (p_from / p_to)::bigint + (p_from / p_to)::bigint - 1 END
$$
"""

FINISH = """
CREATE OR REPLACE FUNCTION rowmill.limit_finish(
  p_name text, p_key text, p_outcome text, p_tickets bigint[], p_costs bigint[], p_estimates bigint[], p_spans text[],
  p_spent boolean, p_seconds float8, p_held float8, p_bucket bigint, p_width float8, p_unused int, p_probe boolean,
  p_failures int, p_pause float8, p_longest float8, p_at float8
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  l rowmill.limiter%ROWTYPE;
  t float8;
  change text;
BEGIN
  {LOCK}
  t := coalesce(p_at, extract(epoch FROM clock_timestamp())::float8);
  IF cardinality(p_tickets) > 0 THEN
    -- A ticket that is gone ran out: what it had reserved is back, or spent.
    WITH given AS (SELECT * FROM unnest(p_tickets, p_costs, p_estimates, p_spans) AS g(g_id, cost, estimate, g_span)),
    ended AS (UPDATE rowmill.ticket SET done = true, slot = NULL, amount = 0, until = t + {KEEP}
              WHERE id = ANY (p_tickets) AND NOT done)
    INSERT INTO rowmill.spending AS s (name, key, span, used, noted_at)
      SELECT p_name, p_key, g_span, sum(CASE WHEN id IS NULL AND p_spent THEN cost - estimate ELSE cost END), t
      FROM given LEFT JOIN rowmill.ticket ON id = g_id
      WHERE g_span IS NOT NULL AND done IS NOT TRUE GROUP BY g_span
      ON CONFLICT (name, key, span) DO UPDATE SET used = s.used + excluded.used, noted_at = excluded.noted_at;
  END IF;
  IF p_unused > 0 AND l.width = p_width AND l.head - p_bucket + 1 BETWEEN 1 AND cardinality(l.counts) THEN
    l.counts[l.head - p_bucket + 1] := greatest(l.counts[l.head - p_bucket + 1] - p_unused, 0);
  END IF;
  IF p_held > 0 THEN l.held := CASE WHEN l.held = 0 THEN p_held ELSE 0.8 * l.held + 0.2 * p_held END; END IF;
  IF p_outcome IN ('ok', 'limited', 'refused') THEN
    IF l.pause > 0 AND p_probe THEN
      l.pause := 0; l.open_until := 0; change := 'closed';
    END IF;
    IF l.pause = 0 THEN l.failures := 0; END IF;
  ELSIF p_outcome = 'down' AND p_failures > 0 THEN
    l.failures := l.failures + 1;
    IF l.pause > 0 AND p_probe THEN
      l.pause := least(l.pause * 2, p_longest); l.open_until := t + l.pause; change := 'opened';
    ELSIF l.pause = 0 AND l.failures >= p_failures THEN
      l.pause := p_pause; l.open_until := t + p_pause; change := 'opened';
    END IF;
  ELSIF p_outcome = 'unknown' AND p_probe AND l.pause > 0 THEN
    l.open_until := t + l.pause;  -- no wiser than before: not again at once
  END IF;
  IF p_probe THEN l.probe_until := 0; END IF;
  IF p_outcome = 'limited' AND t + p_seconds > l.parked_until THEN
    IF l.parked_until <= t THEN change := 'parked'; END IF;
    l.parked_until := t + p_seconds;
  ELSIF p_outcome = 'refused' AND NOT l.off THEN
    l.off := true; change := 'off';
  END IF;
  UPDATE rowmill.limiter SET counts = l.counts, held = l.held, failures = l.failures, pause = l.pause,
    open_until = l.open_until, probe_until = l.probe_until, parked_until = l.parked_until, off = l.off
    WHERE name = p_name AND key = p_key;
  RETURN change;
END $$
"""


def _filled(function: str) -> str:
    numbers = {"{FAR}": asks.FAR, "{USUAL}": asks.USUAL_HOLD, "{KEEP}": asks.KEEP_DONE}
    for name, number in numbers.items():
        function = function.replace(name, repr(number))
    return function.replace("{LOCK}", LOCK)


FUNCTIONS = tuple(_filled(function) for function in (BUCKET, COUNTS, TAKE, FINISH))
FUNCTION_NAMES = ("limit_bucket", "limit_counts", "limit_take", "limit_finish")
