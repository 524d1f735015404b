-- Questions to the Parquet files of `evalstream export parquet`, in DuckDB. They need the views of deploy/docs/warehouse.md.

-- Which part of the traffic is worst? Any attribute may replace `model`.
SELECT monitor, evaluator, evaluator_version, attributes['model'] AS model,
       sum(weight * score) / sum(weight) AS mean,
       sum(weight) AS stands_for, count(*) AS judged
FROM scores GROUP BY ALL HAVING count(*) >= 2
ORDER BY mean LIMIT 20;

-- What does judging cost, by monitor, evaluator and judge? An evaluation that shares the answer of another one costs nothing.
-- With `audit`, cost and tokens include those of the auditing judge.
SELECT monitor, evaluator, judge_model, sum(cost_usd) AS usd,
       sum(input_tokens + output_tokens) AS tokens,
       avg(CASE WHEN shares IS NULL THEN cost_usd END) AS usd_each
FROM evaluations WHERE judge_model IS NOT NULL
GROUP BY ALL ORDER BY usd DESC NULLS LAST;

-- What was not scored, and why? None of these evaluations is in a mean. Those that others replaced are left out.
-- What a gate with a `share` skips (`gated`) has scores that stand for it.
SELECT monitor, evaluator, outcome, coalesce(error_type, reason) AS why,
       count(*) AS evaluations, sum(weight) AS stands_for
FROM evaluations
WHERE outcome <> 'scored'
  AND evaluation_id NOT IN (SELECT unnest(supersedes) FROM evaluations)
GROUP BY ALL ORDER BY evaluations DESC;

-- Do people agree with the judge? The view has the newest label of each person. If several people labelled an answer, their mean counts.
-- If as many people find the answer good as bad, that is half an agreement. Each answer is weighted by what it stands for.
-- Picked labels (`label_probability` is null) have rows of their own, because they say nothing about the traffic.
WITH people AS (
  SELECT evaluation_id, monitor, evaluator, evaluator_version, label_probability IS NULL AS picked,
         any_value(weight / coalesce(label_probability, 1)) AS w, any_value(judge_score) AS judge_score,
         any_value(judge_passed) AS judge_passed,
         avg(score) AS score, (sign(avg(good::INT) - 0.5) + 1) / 2.0 AS good
  FROM labels WHERE score IS NOT NULL OR good IS NOT NULL GROUP BY ALL
)
SELECT monitor, evaluator, evaluator_version, picked, count(*) AS labelled,
       sum(w * abs(score - judge_score)) / sum(w) FILTER (score IS NOT NULL)
         AS mean_difference,
       sum(w * (1 - abs(good - judge_passed::INT))) / sum(w) FILTER (good - judge_passed::INT IS NOT NULL)
         AS agree
FROM people GROUP BY ALL ORDER BY ALL;
