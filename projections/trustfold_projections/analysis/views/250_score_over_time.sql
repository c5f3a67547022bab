-- score_over_time: raw_score of every subject after each day on which it was recorded of.
-- day: a day of recording, UTC
-- scope: scope of the subject
-- tool: tool of the subject
-- effect: effect class of the subject
-- subject: key of the subject
-- raw_score: 0 to 1, by what was recorded up to the end of that day
-- n_samples: traces counted up to then
-- entries: entries recorded on that day
--
-- What a rollback in force takes away is left out of every day.
CREATE OR REPLACE VIEW score_over_time AS
WITH rolled AS MATERIALIZED (
    SELECT subject, list({'low': low, 'high': high}) AS intervals
    FROM rollbacks_as_of(getvariable('settled')) GROUP BY subject
), living AS (
    SELECT l.* FROM raw_ledger l LEFT JOIN rolled r USING (subject)
    WHERE l.recorded_us <= getvariable('settled')
      AND (r.intervals IS NULL OR len(list_filter(r.intervals, lambda i:
        (l.recorded_us > i.low AND l.recorded_us <= i.high)
        OR len(list_filter(l.chain, lambda c: c > i.low AND c <= i.high)) > 0)) = 0)
), by_era AS (
    SELECT subject, make_timestamp(recorded_us)::DATE AS day, era,
           sum(a0::BIGINT * m) AS x0, sum(a1::BIGINT * m) AS x1, sum(a2::BIGINT * m) AS x2,
           sum(a3::BIGINT * m) AS x3, sum(a4::BIGINT * m) AS x4, sum(w0::BIGINT * m) AS d0,
           sum(w1::BIGINT * m) AS d1, sum(w2::BIGINT * m) AS d2, sum(w3::BIGINT * m) AS d3,
           sum(w4::BIGINT * m) AS d4, sum(coalesce(sp_a, 0)::BIGINT * m) AS sp_x,
           sum(coalesce(sp_w, 0)::BIGINT * m) AS sp_d,
           sum(n) AS n, count(*) AS entries
    FROM living GROUP BY subject, day, era
), latest AS (
    -- Relative to the subject's last era: what is 60 eras older weighs nothing in a double.
    SELECT subject, max(era) AS top FROM by_era GROUP BY subject
), by_day AS (
    SELECT subject, day,
           sum(x0::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS x0,
           sum(x1::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS x1,
           sum(x2::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS x2,
           sum(x3::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS x3,
           sum(x4::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS x4,
           sum(d0::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS d0,
           sum(d1::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS d1,
           sum(d2::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS d2,
           sum(d3::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS d3,
           sum(d4::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS d4,
           sum(sp_x::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS sp_x,
           sum(sp_d::DOUBLE * pow(2.0::DOUBLE, (era - top)::DOUBLE) ORDER BY era) AS sp_d,
           sum(n) AS n, sum(entries)::BIGINT AS entries
    FROM by_era JOIN latest USING (subject) GROUP BY subject, day
), running AS (
    SELECT subject, day, entries,
           sum(x0) OVER w AS x0, sum(x1) OVER w AS x1, sum(x2) OVER w AS x2, sum(x3) OVER w AS x3,
           sum(x4) OVER w AS x4, sum(d0) OVER w AS d0, sum(d1) OVER w AS d1, sum(d2) OVER w AS d2,
           sum(d3) OVER w AS d3, sum(d4) OVER w AS d4, sum(sp_x) OVER w AS sp_x,
           sum(sp_d) OVER w AS sp_d,
           sum(n) OVER w AS n
    FROM by_day WINDOW w AS (PARTITION BY subject ORDER BY day)
)
SELECT day, subject::JSON ->> 0 AS scope, subject::JSON ->> 1 AS tool,
       subject::JSON ->> 2 AS effect, subject,
       0.3::DOUBLE * CASE WHEN (d0 + sp_d) = 0 THEN 0::DOUBLE
                ELSE (x0 + sp_x) / ((d0 + sp_d) * 1000000::DOUBLE) END
       + 0.25::DOUBLE * CASE WHEN d1 = 0 THEN 0.5::DOUBLE ELSE x1 / (d1 * 1000000::DOUBLE) END
       + 0.2::DOUBLE * CASE WHEN d2 = 0 THEN 0.5::DOUBLE ELSE x2 / (d2 * 1000000::DOUBLE) END
       + 0.15::DOUBLE * CASE WHEN d3 = 0 THEN 0.5::DOUBLE ELSE x3 / (d3 * 1000000::DOUBLE) END
       + 0.1::DOUBLE * (1::DOUBLE - CASE WHEN d4 = 0 THEN 0::DOUBLE
                ELSE x4 / (d4 * 1000000::DOUBLE) END) AS raw_score,
       n::BIGINT AS n_samples, entries
FROM running ORDER BY subject, day;
