-- What cronce keeps in PostgreSQL. Running this again changes nothing; on an older version it brings it up to this one.
-- A role that only uses the store needs what the GRANTs at the end show.

SELECT pg_advisory_xact_lock({lock});

DO $cronce$
DECLARE
    found integer;
    old text;
BEGIN
    IF to_regnamespace('{text}') IS NULL THEN
        CREATE SCHEMA {schema};
    END IF;
    IF to_regtype('{text}.cronce_answer') IS NULL THEN
        CREATE TYPE {schema}.cronce_answer AS (
            place integer, refused integer, version bigint, mark bigint, at bigint, until bigint, fence_birth bigint,
            fence_number bigint, value text
        );
    END IF;
    IF to_regclass('{text}.cronce_meta') IS NOT NULL THEN
        EXECUTE 'SELECT schema FROM {text}.cronce_meta' INTO found;
        IF found > {version} THEN
            RAISE EXCEPTION 'this store has version %, newer than this SQL ({version})', found;
        END IF;
    END IF;
    FOR old IN  -- what a function returns cannot be replaced
        SELECT oid::regprocedure FROM pg_proc
        WHERE pronamespace = to_regnamespace('{text}') AND proname IN ('cronce_swap_few', 'cronce_swap_in_turn')
            AND prorettype = 'text[]'::regtype
    LOOP
        EXECUTE 'DROP FUNCTION ' || old;
    END LOOP;
END
$cronce$;

-- The one row about the store itself. Instants are whole microseconds since 1970. `tally` and `last_write` are noted
-- every few seconds, by whoever happens to write then: a row that every write had to change would make them queue.
CREATE TABLE IF NOT EXISTS {schema}.cronce_meta (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    schema      integer NOT NULL,
    birth       bigint NOT NULL,
    tally       bigint NOT NULL,
    base        bigint NOT NULL,
    origin      text NOT NULL,
    since       bigint,
    last_write  bigint NOT NULL,
    identity    text NOT NULL,
    timeline    bigint NOT NULL
) WITH (fillfactor = 10);

-- One number for every write that wins. No transaction waits for another's, and none is ever drawn twice.
CREATE SEQUENCE IF NOT EXISTS {schema}.cronce_tally AS bigint;

-- Keys compare bytewise. Half of a page stays empty for updates: a renewal changes no indexed column, so that its new row
-- stands beside the old one and no index hears of it. That is why `until` is in none: what is open is little. In the
-- order of `at` runs stand alone: the effects of a slot have its instant too, and there may be thousands of them.
CREATE TABLE IF NOT EXISTS {schema}.cronce_cells (
    version       bigint NOT NULL,
    at            bigint,
    until         bigint,
    fence_birth   bigint,
    fence_number  bigint,
    mark          smallint NOT NULL,
    key           text COLLATE "C" NOT NULL,
    value         text NOT NULL
) WITH (fillfactor = 50);

CREATE UNIQUE INDEX IF NOT EXISTS cronce_by_key ON {schema}.cronce_cells (key);
CREATE INDEX IF NOT EXISTS cronce_runs_by_at ON {schema}.cronce_cells (
    (CASE WHEN left(key, 4) = 'run/' THEN at END), key
) WHERE (CASE WHEN left(key, 4) = 'run/' THEN at END) IS NOT NULL;
CREATE INDEX IF NOT EXISTS cronce_open ON {schema}.cronce_cells (key) WHERE mark = 1;
CREATE INDEX IF NOT EXISTS cronce_attention ON {schema}.cronce_cells (at, key) WHERE mark = 4;

-- A life begins. The server and the database are remembered, so that a copy is told from the original.
INSERT INTO {schema}.cronce_meta (schema, birth, tally, base, origin, last_write, identity, timeline)
SELECT {version}, now.us, 0, 0, CASE WHEN {made} OR current_setting('fsync') = 'on' THEN 'made' ELSE 'found' END, now.us,
       {identity}, {timeline}
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS us) AS now
ON CONFLICT (only_row) DO NOTHING;

UPDATE {schema}.cronce_meta SET schema = {version} WHERE schema < {version};

-- SWAPPING
--
-- All of a batch is one transaction, and it comes to what judge() in base.py says. The order of things:
--
--   1. The life of the store is held (a shared lock, for which only the beginning of another life waits, this file and a
--      batch that names a key twice), then read.
--   2. The first group is read without locks, and judged; all are, where it cannot be won. Where nothing can be won, that
--      is the answer: no lock, no number from the sequence, no transaction id, nothing in the log.
--   3. All is written on the versions that the writer has seen or, where all was read, what can be won on the versions
--      just read: first the cells that are new, then the others, either in the order of keys. So no two batches ever wait
--      for each other in a ring: whoever waits to make a cell has locked none, and whoever waits for a cell that is there
--      waits in the order of keys. If one of them is otherwise by then all of it is undone, and judged by what stands
--      there now.
--
-- An answer is rows, in any order: one about the store, at place 0, and one for each write at its place, from 1 on.
--   place 0   refused: 1 the writer believes in another life, 2 it saw more than the store knows, or the server may have
--             forgotten something; version: of no account; mark: the tally noted last; at: now; until: since; fence:
--             birth and base; value: origin
--   others    refused: 1 version, 2 early, 3 late, 4 its group: the cell as it stands, NULL if it is absent;
--             0: won, under the number that stands as version; of the rest only what the write left alone is of account
--
-- An answer to one write or a few is spelled, as one text: an array of numbers, six about the store (refused, mark, at,
-- until, birth, base) and eight about each write (as above, and the length of its value); the origin and a blank; the
-- values. -4611686018427387904 stands for an instant or a span that is not given. A mark above 16 is a grant.

-- What every swap begins with: its answer about the store. Until numbers are drawn, `version` says whether it is time to
-- note the last write.
--
-- A server on another timeline than the noted one was promoted or recovered. What it lost need not show in the sequence,
-- which is logged 32 numbers ahead: so unless wins wait for a standby, it is taken to have forgotten. That is asked each
-- time and not once for each connection, since a pooler goes on with another server unseen.
--
-- (Where there are more words than it seems to need: to plpgsql an assignment is cheap, and a statement with as much as a
-- sum in it is not.)
CREATE OR REPLACE FUNCTION {schema}.cronce_enter(
    seen_birth bigint, seen_tally bigint, patience text, given_now bigint DEFAULT NULL
) RETURNS {schema}.cronce_answer LANGUAGE plpgsql AS $cronce$
DECLARE
    done text;
    meta {schema}.cronce_meta;
    head {schema}.cronce_answer;
BEGIN
    IF current_setting('synchronous_commit') = 'off' THEN
        done := set_config('synchronous_commit', 'on', true);  -- a win is on disk before it is answered
    END IF;
    done := set_config('lock_timeout', patience, true);
    done := pg_advisory_xact_lock_shared({lock});
    SELECT * INTO meta FROM {schema}.cronce_meta;
    head.place := 0;
    head.refused := (seen_birth < meta.birth)::integer;
    IF seen_birth > meta.birth
        OR (seen_tally > meta.tally AND seen_tally > coalesce(pg_sequence_last_value('{text}.cronce_tally'), 0)
            AND seen_birth = meta.birth)
    THEN
        head.refused := 2;
    END IF;
    IF meta.timeline <> {timeline} THEN
        IF {survives} THEN
            UPDATE {schema}.cronce_meta SET timeline = {timeline} WHERE timeline = meta.timeline;
        ELSE
            head.refused := 2;
        END IF;
    END IF;
    head.at := coalesce(given_now, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    head.version := -(meta.last_write < head.at - 5000000)::integer;
    head.mark := meta.tally;
    head.until := meta.since;
    head.fence_birth := meta.birth;
    head.fence_number := meta.base;
    head.value := meta.origin;
    RETURN head;
END
$cronce$;

-- Note when the last write was, and its number: now and then, and never while another does.
CREATE OR REPLACE FUNCTION {schema}.cronce_note(number bigint, now_us bigint) RETURNS void LANGUAGE plpgsql AS $cronce$
BEGIN
    PERFORM FROM {schema}.cronce_meta WHERE last_write < now_us - 5000000 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE {schema}.cronce_meta SET last_write = now_us, tally = number;
    END IF;
END
$cronce$;

-- Why a write is refused on its own, by the cell as it was read.
CREATE OR REPLACE FUNCTION {schema}.cronce_reason(
    version bigint, mark smallint, seen bigint, not_before bigint, not_after bigint, now_us bigint
) RETURNS integer LANGUAGE sql IMMUTABLE AS $cronce$
    SELECT CASE
        WHEN coalesce(version, 0) <> seen AND NOT (seen = -1 AND coalesce(mark, 2) = 2) THEN 1
        WHEN now_us < not_before THEN 2
        WHEN now_us > not_after AND not_after <> -4611686018427387904 THEN 3
        ELSE 0
    END
$cronce$;

-- Cells as they stand beside the writes that are about them. A column that repeats itself is given by its first part. The
-- planner puts this in place of its call, and whoever calls holds it to looking keys up one by one.
CREATE OR REPLACE FUNCTION {schema}.cronce_judged(
    keys text[], seens bigint[], befores bigint[], afters bigint[], now_us bigint
) RETURNS TABLE (
    place bigint, reason integer, cell {schema}.cronce_cells, version bigint, mark smallint, at bigint, until bigint,
    fence_birth bigint, fence_number bigint, value text
) LANGUAGE sql STABLE AS $cronce$
    SELECT u.place, {schema}.cronce_reason(
               c.version, c.mark, coalesce(u.seen, seens[1 + (u.place - 1) % cardinality(seens)]),
               coalesce(u.before, befores[1 + (u.place - 1) % cardinality(befores)]),
               coalesce(u.after, afters[1 + (u.place - 1) % cardinality(afters)]), now_us
           ), CASE WHEN c.key IS NOT NULL THEN c END, c.version, c.mark, c.at, c.until, c.fence_birth, c.fence_number,
           c.value
    FROM unnest(keys, seens, befores, afters) WITH ORDINALITY AS u (key, seen, before, after, place)
    LEFT JOIN {schema}.cronce_cells AS c ON c.key = u.key
$cronce$;

-- Wake whoever listens, if a cell of the board is among those that were won. Who calls this has looked whether the batch
-- has any such text in it, which takes no time; this is exact. It reaches the others when the transaction is committed.
CREATE OR REPLACE FUNCTION {schema}.cronce_tell(won text[]) RETURNS void LANGUAGE plpgsql AS $cronce$
BEGIN
    IF EXISTS (SELECT FROM unnest(won) AS w (key) WHERE starts_with(w.key, '{board}')) THEN
        PERFORM pg_notify('{channel}', '');
    END IF;
END
$cronce$;

-- One write. There is nothing to undo if somebody was faster.
CREATE OR REPLACE FUNCTION {schema}.cronce_swap_one(
    seen_birth bigint, seen_tally bigint, patience text, its_key text, its_value text, seen bigint, its_mark bigint,
    its_at bigint, ttl bigint, not_before bigint, not_after bigint
) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $cronce$
DECLARE
    head constant {schema}.cronce_answer := {schema}.cronce_enter(seen_birth, seen_tally, patience);
    cell {schema}.cronce_cells;
    reason integer;
    was bigint;
BEGIN
    WHILE head.refused = 0 LOOP
        SELECT * INTO cell FROM {schema}.cronce_cells AS c WHERE c.key = its_key;
        reason := {schema}.cronce_reason(cell.version, cell.mark, seen, not_before, not_after, head.at);
        EXIT WHEN reason > 0;
        was := cell.version;
        cell.version := nextval('{text}.cronce_tally');
        cell.value := NULL;
        IF its_mark > 16 THEN
            cell.fence_birth := head.fence_birth;
            cell.fence_number := cell.version;
        END IF;
        IF was IS NULL THEN
            INSERT INTO {schema}.cronce_cells (version, at, until, fence_birth, fence_number, mark, key, value)
            VALUES (cell.version, its_at, head.at + ttl, cell.fence_birth, cell.fence_number, its_mark & 15, its_key,
                    its_value)
            ON CONFLICT (key) DO NOTHING;
        ELSE
            UPDATE {schema}.cronce_cells AS c
            SET version = cell.version, mark = its_mark & 15, until = coalesce(head.at + ttl, cell.until),
                fence_birth = cell.fence_birth, fence_number = cell.fence_number, value = its_value
            WHERE c.key = its_key AND c.version = was;
        END IF;
        EXIT WHEN FOUND;
    END LOOP;
    IF head.version < 0 AND reason = 0 THEN
        PERFORM {schema}.cronce_note(cell.version, head.at);
    END IF;
    IF reason = 0 AND starts_with(its_key, '{board}') THEN
        PERFORM {schema}.cronce_tell(ARRAY[its_key]);
    END IF;
    RETURN concat(
        ARRAY[head.refused, head.mark, head.at, head.until, head.fence_birth, head.fence_number, reason, cell.version,
              cell.mark, cell.at, cell.until, cell.fence_birth, cell.fence_number, length(cell.value)]::text,
        head.value, ' ', cell.value
    );
END
$cronce$;

-- One group of a few writes, in the order of their keys. `told` is what the writer has seen, birth and tally, and the
-- patience; then six numbers for each write: seen, mark, at, ttl, not before, not after. `texts` are all keys, then all
-- values.
CREATE OR REPLACE FUNCTION {schema}.cronce_swap_few(
    told bigint[], divider text, texts text, given_now bigint DEFAULT NULL
) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $cronce$
DECLARE
    none constant bigint := -4611686018427387904;
    many constant integer := cardinality(told) / 6;
    words constant text[] := string_to_array(texts, divider);
    head constant {schema}.cronce_answer := {schema}.cronce_enter(told[1], told[2], told[3]::text, given_now);
    answer bigint[] := ARRAY[head.refused, head.mark, head.at, head.until, head.fence_birth, head.fence_number];
    cell {schema}.cronce_cells;
    cells {schema}.cronce_cells[];
    reasons integer[];
    hopeless boolean := head.refused > 0;
    was bigint;
    number bigint;
    found_values text := '';
BEGIN
    WHILE NOT hopeless LOOP
        FOR i IN 1..many LOOP
            SELECT * INTO cell FROM {schema}.cronce_cells AS c WHERE c.key = words[i];
            cells[i] := cell;
            reasons[i] := {schema}.cronce_reason(
                cell.version, cell.mark, told[i * 6 - 2], told[i * 6 + 2], told[i * 6 + 3], head.at
            );
            hopeless := hopeless OR reasons[i] > 0;
        END LOOP;
        EXIT WHEN hopeless;
        BEGIN
            FOR old IN 0..1 LOOP
                FOR i IN 1..many LOOP
                    cell := cells[i];
                    was := cell.version;
                    CONTINUE WHEN (was IS NOT NULL)::integer <> old;
                    number := nextval('{text}.cronce_tally');
                    cell.version := number;
                    cell.value := NULL;
                    IF told[i * 6 - 1] > 16 THEN
                        cell.fence_birth := head.fence_birth;
                        cell.fence_number := number;
                    END IF;
                    IF told[i * 6 + 1] <> none THEN
                        cell.until := head.at + told[i * 6 + 1];
                    END IF;
                    cells[i] := cell;
                    IF old = 0 THEN
                        INSERT INTO {schema}.cronce_cells (version, at, until, fence_birth, fence_number, mark, key, value)
                        VALUES (number, nullif(told[i * 6], none), cell.until, cell.fence_birth, cell.fence_number,
                                told[i * 6 - 1] & 15, words[i], words[many + i]);
                    ELSE
                        UPDATE {schema}.cronce_cells AS c
                        SET version = number, mark = told[i * 6 - 1] & 15, until = cell.until,
                            fence_birth = cell.fence_birth, fence_number = cell.fence_number, value = words[many + i]
                        WHERE c.key = words[i] AND c.version = was;
                        IF NOT FOUND THEN
                            RAISE unique_violation;
                        END IF;
                    END IF;
                END LOOP;
            END LOOP;
            EXIT;
        EXCEPTION WHEN unique_violation THEN
            number := NULL;  -- somebody was faster: read again
        END;
    END LOOP;
    IF head.version < 0 AND number IS NOT NULL THEN
        PERFORM {schema}.cronce_note(number, head.at);
    END IF;
    IF number IS NOT NULL AND strpos(texts, '{board}') > 0 THEN
        PERFORM {schema}.cronce_tell(words[1:many]);
    END IF;
    FOR i IN 1..CASE WHEN head.refused = 0 THEN many ELSE 0 END LOOP
        cell := cells[i];
        answer := answer || ARRAY[
            CASE WHEN hopeless AND reasons[i] = 0 THEN 4 ELSE reasons[i] END, cell.version, cell.mark, cell.at, cell.until,
            cell.fence_birth, cell.fence_number, length(cell.value)
        ];
        found_values := found_values || coalesce(cell.value, '');
    END LOOP;
    RETURN concat(answer::text, head.value, ' ', found_values);
END
$cronce$;

-- Groups one after the other, each seeing what the ones before it did: for a batch that names a key twice. It does not
-- take its locks in order, so it is alone while it works. `sizes` are those of the groups.
CREATE OR REPLACE FUNCTION {schema}.cronce_swap_in_turn(told bigint[], divider text, texts text, sizes integer[])
RETURNS SETOF text LANGUAGE plpgsql AS $cronce$
DECLARE
    words constant text[] := string_to_array(texts, divider);
    many constant integer := cardinality(words) / 2;
    now_us bigint;
    before integer := 0;
    size integer;
BEGIN
    PERFORM set_config('lock_timeout', told[3]::text, true);
    PERFORM pg_advisory_xact_lock({lock});
    now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    FOREACH size IN ARRAY sizes LOOP
        RETURN NEXT {schema}.cronce_swap_few(
            told[1:3] || told[before * 6 + 4 : (before + size) * 6 + 3], divider,
            array_to_string(words[before + 1 : before + size] || words[many + before + 1 : many + before + size], divider),
            now_us
        );
        before := before + size;
    END LOOP;
END
$cronce$;

-- Many writes with different keys. A column that repeats itself travels as its first part, and `befores` that are `ats`
-- do not travel. `size` is that of the groups, or 0 where they differ: then `groups` has the number of each write's. If
-- all are won and all are new cells, one row is the answer, and its version is the first number; the others follow it.
-- Plans are made once for each session: planning the look at the first group takes longer than the look.
CREATE OR REPLACE FUNCTION {schema}.cronce_swap_many(
    seen_birth bigint, seen_tally bigint, patience text, divider text, joined_keys text, joined_values text,
    size integer, groups integer[], seens bigint[], marks bigint[], ats bigint[], ttls bigint[], befores bigint[],
    afters bigint[]
) RETURNS SETOF {schema}.cronce_answer LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_memoize = off
SET plan_cache_mode = force_generic_plan AS $cronce$
DECLARE
    none constant bigint := -4611686018427387904;
    keys constant text[] := string_to_array(joined_keys, divider);
    texts text[];
    many constant integer := cardinality(keys);
    first constant integer := CASE size
        WHEN 0 THEN (SELECT count(*) FROM unnest(groups) AS g WHERE g = groups[1]) ELSE size
    END;
    head {schema}.cronce_answer := {schema}.cronce_enter(seen_birth, seen_tally, patience);
    now_us constant bigint := head.at;
    likely boolean;
    free_is_there boolean;
    reasons integer[];
    cells {schema}.cronce_cells[];
    expected bigint[];
    numbers bigint[];
    inserted integer := 0;
    changed {schema}.cronce_answer[];
BEGIN
    IF head.refused > 0 THEN
        RETURN NEXT head;
        RETURN;
    END IF;

    -- Most batches are won or lost as a whole, as their first group is. If that can be won, all are written unread, as they
    -- were seen; one that is free or absent is taken for what such a one of the first group is. If it cannot, perhaps none
    -- can, and that is sooner told without what a write needs.
    befores := coalesce(nullif(befores, '{}'), ats);
    SELECT bool_and(j.reason = 0),
           bool_or(j.version IS NOT NULL) FILTER (WHERE seens[1 + (j.place - 1) % cardinality(seens)] = -1)
    INTO likely, free_is_there
    FROM {schema}.cronce_judged(keys[1:first], seens[1:first], befores[1:first], afters[1:first], now_us) AS j;
    IF NOT likely THEN
        RETURN QUERY
        WITH judged AS MATERIALIZED (
            SELECT j.place, j.reason, j.version, j.mark, j.at, j.until, j.fence_birth, j.fence_number, j.value,
                   CASE size WHEN 0 THEN groups[j.place] ELSE (j.place - 1) / size END AS grouped
            FROM {schema}.cronce_judged(keys, seens, befores, afters, now_us) AS j
        )
        SELECT j.place::integer, CASE j.reason WHEN 0 THEN 4 ELSE j.reason END, j.version, j.mark::bigint, j.at, j.until,
               j.fence_birth, j.fence_number, j.value
        FROM judged AS j
        WHERE NOT EXISTS (SELECT FROM judged WHERE reason = 0)
            OR NOT EXISTS (SELECT FROM judged GROUP BY grouped HAVING max(reason) = 0);
        IF FOUND THEN
            RETURN NEXT head;
            RETURN;
        END IF;
    END IF;
    likely := likely AND now_us >= ALL (befores) AND now_us <= ALL (array_replace(afters, none, now_us));
    expected := CASE WHEN free_is_there THEN seens ELSE array_replace(seens, -1, 0) END;
    LOOP
        IF likely THEN
            SELECT array_agg(nextval('{text}.cronce_tally')) INTO numbers FROM generate_series(1, many);
        ELSE
            SELECT array_agg(j.reason ORDER BY j.place), array_agg(j.cell ORDER BY j.place),
                   array_agg(coalesce(j.version, 0) ORDER BY j.place)
            INTO reasons, cells, expected
            FROM {schema}.cronce_judged(keys, seens, befores, afters, now_us) AS j;
            IF size <> 1 AND 0 = ANY (reasons) AND 0 < ANY (reasons) THEN
                SELECT array_agg(CASE WHEN g.reason = 0 AND g.hopeless THEN 4 ELSE g.reason END ORDER BY g.place)
                INTO reasons
                FROM (
                    SELECT r.place, r.reason, bool_or(r.reason > 0) OVER (
                        PARTITION BY CASE size WHEN 0 THEN r.grouped ELSE (r.place - 1) / size END
                    ) AS hopeless
                    FROM unnest(reasons, groups) WITH ORDINALITY AS r (reason, grouped, place)
                ) AS g;
            END IF;
            EXIT WHEN NOT 0 = ANY (reasons);
            SELECT array_agg(CASE r.reason WHEN 0 THEN nextval('{text}.cronce_tally') END) INTO numbers
            FROM unnest(reasons) AS r (reason);
        END IF;
        texts := string_to_array(joined_values, divider);
        BEGIN
            IF 0 = ANY (expected) THEN
                INSERT INTO {schema}.cronce_cells (key, version, mark, at, until, fence_birth, fence_number, value)
                SELECT n.key, n.number, n.mark & 15, nullif(n.at, none), now_us + nullif(n.ttl, none),
                       CASE WHEN n.mark > 16 THEN head.fence_birth END, CASE WHEN n.mark > 16 THEN n.number END, n.value
                FROM (
                    SELECT u.key, u.value, u.number,
                           coalesce(u.mark, marks[1 + (u.place - 1) % cardinality(marks)]) AS mark,
                           coalesce(u.at, ats[1 + (u.place - 1) % cardinality(ats)]) AS at,
                           coalesce(u.ttl, ttls[1 + (u.place - 1) % cardinality(ttls)]) AS ttl
                    FROM unnest(keys, texts, numbers, marks, ats, ttls, expected) WITH ORDINALITY
                        AS u (key, value, number, mark, at, ttl, was, place)
                    WHERE u.number IS NOT NULL AND coalesce(u.was, expected[1 + (u.place - 1) % cardinality(expected)]) = 0
                ) AS n
                ORDER BY n.key COLLATE "C";
                GET DIAGNOSTICS inserted = ROW_COUNT;
            END IF;
            IF 0 <> ANY (expected) THEN
                -- The plan is a nested loop, as the settings above leave it: over these rows in their order, or over all
                -- cells by their index. Either is the order of keys. A cell that was freed since the numbers were drawn is
                -- not taken by these: fences would fall.
                WITH won AS (
                    UPDATE {schema}.cronce_cells AS c
                    SET version = n.number, mark = n.mark & 15, until = coalesce(now_us + nullif(n.ttl, none), c.until),
                        fence_birth = CASE WHEN n.mark > 16 THEN head.fence_birth ELSE c.fence_birth END,
                        fence_number = CASE WHEN n.mark > 16 THEN n.number ELSE c.fence_number END, value = n.value
                    FROM (
                        SELECT u.key, u.value, u.number, u.place,
                               coalesce(u.mark, marks[1 + (u.place - 1) % cardinality(marks)]) AS mark,
                               coalesce(u.ttl, ttls[1 + (u.place - 1) % cardinality(ttls)]) AS ttl,
                               coalesce(u.was, expected[1 + (u.place - 1) % cardinality(expected)]) AS was
                        FROM unnest(keys, texts, numbers, marks, ttls, expected) WITH ORDINALITY
                            AS u (key, value, number, mark, ttl, was, place)
                        WHERE u.number IS NOT NULL
                            AND coalesce(u.was, expected[1 + (u.place - 1) % cardinality(expected)]) <> 0
                        ORDER BY u.key COLLATE "C"
                    ) AS n
                    WHERE c.key = n.key AND (c.version = n.was OR (n.was = -1 AND c.mark = 2 AND c.version < numbers[1]))
                    RETURNING n.place, n.number, c.mark, c.at, c.until, c.fence_birth, c.fence_number
                )
                SELECT array_agg((w.place, 0, w.number, w.mark, w.at, w.until, w.fence_birth, w.fence_number, NULL
                       )::{schema}.cronce_answer)
                INTO changed
                FROM won AS w;
            END IF;
            EXIT WHEN inserted + coalesce(cardinality(changed), 0) = cardinality(array_remove(numbers, NULL));
            RAISE unique_violation;
        EXCEPTION WHEN unique_violation THEN
            likely := false;  -- somebody was faster: read, then again
            numbers := NULL;
            inserted := 0;
            changed := NULL;
        END;
    END LOOP;

    IF head.version < 0 AND numbers IS NOT NULL THEN
        PERFORM {schema}.cronce_note((SELECT max(n) FROM unnest(numbers) AS n), now_us);
    END IF;
    IF numbers IS NOT NULL AND strpos(joined_keys, '{board}') > 0 THEN
        PERFORM {schema}.cronce_tell(
            (SELECT array_agg(u.key) FROM unnest(keys, numbers) AS u (key, number) WHERE u.number IS NOT NULL)
        );
    END IF;
    IF inserted = many AND numbers[many] - numbers[1] = many - 1 THEN
        head.version := numbers[1];
        RETURN NEXT head;
        RETURN;
    END IF;
    RETURN NEXT head;
    RETURN QUERY SELECT * FROM unnest(changed);
    RETURN QUERY
    SELECT a.place::integer, coalesce(a.reason, 0), coalesce(a.number, a.version), a.mark::bigint, a.at, a.until,
           a.fence_birth, a.fence_number, CASE WHEN a.number IS NULL THEN a.value END
    FROM unnest(numbers, reasons, expected, cells) WITH ORDINALITY
        AS a (number, reason, was, version, at, until, fence_birth, fence_number, mark, key, value, place)
    WHERE a.number IS NULL OR coalesce(a.was, expected[1 + (a.place - 1) % cardinality(expected)]) = 0;
END
$cronce$;

-- A new life: somebody saw more than the store knows, so it forgot; or the server was promoted or recovered, and may have;
-- or a copy is adopted. Everybody else waits for it, and whoever comes second finds that nothing is left to do.
CREATE OR REPLACE FUNCTION {schema}.cronce_begin(
    seen_birth bigint, seen_tally bigint, patience integer, adopt boolean
) RETURNS void LANGUAGE plpgsql AS $cronce$
DECLARE
    now_us bigint;
    meta {schema}.cronce_meta;
    drawn bigint;
    highest bigint;
BEGIN
    PERFORM set_config('synchronous_commit', 'on', true);
    PERFORM set_config('lock_timeout', patience::text, true);
    PERFORM pg_advisory_xact_lock({lock});
    now_us := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    SELECT * INTO meta FROM {schema}.cronce_meta;
    SELECT last_value - (NOT is_called)::integer INTO drawn FROM {schema}.cronce_tally;
    IF NOT adopt AND meta.timeline = {timeline} AND (seen_birth, seen_tally) <= (meta.birth, drawn) THEN
        RETURN;
    END IF;
    highest := CASE WHEN seen_birth >= meta.birth THEN greatest(seen_tally, drawn) ELSE drawn END;
    PERFORM setval('{text}.cronce_tally', highest) WHERE highest > drawn;
    UPDATE {schema}.cronce_meta
    SET birth = greatest(now_us, seen_birth + 1, meta.birth + 1), tally = highest, base = highest, origin = 'restored',
        since = meta.last_write, identity = CASE WHEN adopt THEN {identity} ELSE meta.identity END,
        timeline = {timeline};
END
$cronce$;

-- For people: one line for each run on record.
CREATE OR REPLACE VIEW {schema}.cronce_runs AS
SELECT split_part(c.key, '/', 2) AS job,
       split_part(split_part(c.key, '/', 3), '#', 1)::timestamptz AS slot,
       nullif(split_part(c.key, '#', 2), '') AS request,
       r.record ->> 'state' AS state,
       r.record ->> 'outcome' AS outcome,
       r.record ->> 'reason' AS reason,
       r.record ->> 'holder' AS holder,
       lpad(to_hex(c.fence_birth), 14, '0') || '-' || lpad(to_hex(c.fence_number), 12, '0') AS fence,
       coalesce((r.record ->> 'grant')::integer, 0) AS "grant",
       timestamptz 'epoch' + (r.record ->> 'started')::bigint * interval '1 microsecond' AS started,
       timestamptz 'epoch' + (r.record ->> 'finished')::bigint * interval '1 microsecond' AS finished,
       timestamptz 'epoch' + c.at * interval '1 microsecond' AS due,
       timestamptz 'epoch' + c.until * interval '1 microsecond' AS until
FROM {schema}.cronce_cells AS c, LATERAL (SELECT c.value::jsonb AS record) AS r
WHERE c.key >= 'run/' AND c.key < 'run0';

-- For a role that only uses the store, put its name in and run:
--   GRANT USAGE ON SCHEMA {schema} TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.cronce_meta, {schema}.cronce_cells TO app;
--   GRANT SELECT ON {schema}.cronce_runs TO app;
--   GRANT SELECT, USAGE, UPDATE ON SEQUENCE {schema}.cronce_tally TO app;
