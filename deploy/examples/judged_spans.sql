-- Judged spans from the topic of export.spans into ClickHouse: one row of each span, also before copies are merged.
CREATE TABLE judged_spans (
  trace_id String, span_id String, name String, started DateTime64(9), attributes Map(String, String)
) ENGINE = ReplacingMergeTree ORDER BY (trace_id, span_id);

CREATE TABLE judged_spans_topic (record String)
ENGINE = Kafka('broker:9092', 'judged_spans', 'clickhouse', 'JSONAsString');

CREATE MATERIALIZED VIEW judged_spans_rows TO judged_spans AS
WITH JSONExtractRaw(record, 'resourceSpans', 1, 'scopeSpans', 1, 'spans', 1) AS span,
     JSONExtractArrayRaw(span, 'attributes') AS pairs
SELECT JSONExtractString(span, 'traceId') AS trace_id,
       JSONExtractString(span, 'spanId') AS span_id,
       JSONExtractString(span, 'name') AS name,
       fromUnixTimestamp64Nano(JSONExtractInt(span, 'startTimeUnixNano')) AS started,
       mapFromArrays(
         arrayMap(pair -> JSONExtractString(pair, 'key'), pairs),
         arrayMap(pair -> if(JSONHas(pair, 'value', 'stringValue'),
           JSONExtractString(pair, 'value', 'stringValue'),
           trim(BOTH '"' FROM JSONExtractKeysAndValuesRaw(pair, 'value')[1].2)), pairs)
       ) AS attributes
FROM judged_spans_topic;

SELECT attributes['gen_ai.request.model'] AS model, count() AS spans,
       avg(toFloat64(attributes['gen_ai.evaluation.answers_question.score.value'])) AS mean
FROM judged_spans FINAL GROUP BY model;
