-- The Parquet files of `evalstream export parquet` into ClickHouse: a table that has each evaluation once.
CREATE TABLE evaluations
ENGINE = ReplacingMergeTree ORDER BY (evaluator, evaluation_id)
SETTINGS allow_nullable_key = 1
AS SELECT * FROM s3('https://bucket.s3.amazonaws.com/evalstream/evaluations/day=*/*.parquet');

INSERT INTO evaluations
SELECT * FROM s3('https://bucket.s3.amazonaws.com/evalstream/evaluations/day=2026-11-22/*.parquet');

SELECT monitor, evaluator, evaluator_version, toDate(time) AS on_day, attributes['model'] AS model,
       sum(weight * score) / sum(weight) AS mean, count() AS judged
FROM evaluations FINAL
WHERE outcome = 'scored'
  AND evaluation_id NOT IN (SELECT arrayJoin(supersedes) FROM evaluations)
GROUP BY monitor, evaluator, evaluator_version, on_day, model ORDER BY mean;
