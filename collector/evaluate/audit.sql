-- The audit of evaluations, in a temporary database: one statement or script below each name.

-- # tables
CREATE TABLE due (
    id TEXT PRIMARY KEY, partition INTEGER, trigger_offset INTEGER, monitor TEXT, evaluator TEXT, subject TEXT,
    revision TEXT, probability REAL, requested INTEGER, state TEXT DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE done (
    id TEXT PRIMARY KEY, monitor TEXT, evaluator TEXT, subject TEXT, live_score_by TEXT, outcome TEXT, probability REAL,
    backfill INTEGER, later INTEGER, number INTEGER
) WITHOUT ROWID;
CREATE TABLE replaced (id TEXT PRIMARY KEY) WITHOUT ROWID;

-- # add_due
-- A turn of the past makes an evaluation due that nobody has to make, until `rejudge` requests it (1). A failed one
-- that is made again (2) has an id of its own, which is the same in every version of the evaluator.
INSERT INTO due VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '') ON CONFLICT (id) DO UPDATE
SET trigger_offset = excluded.trigger_offset, probability = excluded.probability, requested = excluded.requested
WHERE excluded.requested

-- # compare
-- What became due before the first evaluation by the present definition, by a request or as the traffic came, was made
-- by an earlier one, whose ids are others: an evaluator's version may change without a new configuration.
CREATE INDEX by_evaluator ON due (partition, monitor, evaluator, trigger_offset);
UPDATE due SET state = 'done' WHERE id IN (SELECT id FROM done);
UPDATE due SET state = 'replaced' WHERE state = '' AND id IN (SELECT id FROM replaced);
-- A failure and its replacement count as one. A later revision of a plug-in gives the failed evaluation an id that it never
-- had (''), so the subject of the retry names it.
CREATE INDEX by_subject ON due (monitor, evaluator, subject);
CREATE INDEX done_by_subject ON done (monitor, evaluator, subject);
UPDATE due SET state = 'retried' WHERE (
    state = '' AND requested = 0 OR id IN (SELECT id FROM replaced EXCEPT SELECT id FROM done WHERE outcome = 'scored')
) AND EXISTS (
    SELECT 1 FROM due AS again WHERE again.requested > 0 AND (due.state != '' OR again.requested = 2)
        AND again.monitor = due.monitor AND again.evaluator = due.evaluator AND again.subject = due.subject
        AND again.revision = due.revision AND again.id != due.id
);
-- What another definition has judged counts apart where `rejudge` had the same subject judged again: each counts once.
UPDATE due SET state = 'earlier' WHERE state = 'done' AND EXISTS (
    SELECT 1 FROM due AS again WHERE again.requested = 1 AND again.trigger_offset > due.trigger_offset
        AND again.monitor = due.monitor AND again.evaluator = due.evaluator AND again.subject = due.subject
        AND again.revision = due.revision
);
CREATE TABLE comparable AS
    SELECT partition, monitor, evaluator, max(first_match, changed) AS first FROM (
        SELECT due.partition, due.monitor, due.evaluator, min(trigger_offset) AS first_match,
            coalesce(max(CASE WHEN abs(due.probability - done.probability) > 1e-9 THEN trigger_offset + 1 END), 0)
                AS changed
        FROM due JOIN done USING (id) WHERE requested = 1 OR NOT (requested OR backfill) GROUP BY 1, 2, 3
    );

-- # states
SELECT monitor, evaluator, CASE
    WHEN state != '' THEN state
    WHEN trigger_offset >= :done_below THEN 'in_flight'
    WHEN requested = 2 OR trigger_offset >= first THEN 'missing'
    WHEN EXISTS (
        SELECT 1 FROM done WHERE done.monitor = due.monitor AND done.evaluator = due.evaluator
            AND done.subject = due.subject AND done.id NOT IN (SELECT id FROM due)
    ) THEN 'made_earlier'
    ELSE 'not_compared' END AS what, count(*)
FROM due LEFT JOIN comparable USING (partition, monitor, evaluator)
WHERE partition = :partition AND state != 'earlier' GROUP BY 1, 2, 3

-- # missing
SELECT id, trigger_offset FROM due LEFT JOIN comparable USING (partition, monitor, evaluator)
WHERE partition = :partition AND state = '' AND trigger_offset < :done_below
    AND (requested = 2 OR trigger_offset >= first) AND monitor = :monitor AND evaluator = :evaluator
ORDER BY trigger_offset LIMIT :examples

-- # outcomes
SELECT done.monitor, done.evaluator, outcome, coalesce(due.state, CASE
    WHEN later THEN 'later'
    WHEN EXISTS (
        SELECT 1 FROM due AS other WHERE other.monitor = done.monitor AND other.evaluator = done.evaluator
            AND other.subject = done.subject
    ) THEN 'earlier'
    ELSE 'others' END), count(*), sum(number - 1)
FROM done LEFT JOIN due USING (id) GROUP BY 1, 2, 3, 4

-- # scored_twice
-- The same definition gives a subject the same id, except that those of a monitor depend on the monitors before it.
SELECT monitor, evaluator, count(*), min(subject) FROM (
    SELECT monitor, evaluator, subject FROM done WHERE live_score_by IS NOT NULL
    GROUP BY 1, 2, 3, live_score_by HAVING count(*) > 1
) GROUP BY 1, 2
