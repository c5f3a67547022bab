-- scores_as_of(moment_us): every subject's score as of a moment, read at that moment.
-- scope: scope of the subject
-- tool: tool of the subject; runtime for whole traces by outcome
-- effect: effect class of the subject
-- subject: key of the subject, the JSON array of the three
-- tool_success: 0 to 1, self-play included
-- human_approval_rate: 0 to 1; 0.5 where nobody was asked
-- cost_efficiency: 0 to 1; 0.5 where the cost is not known
-- constitution_clean: 0 to 1
-- undo_rate: 0 to 1
-- raw_score: 0 to 1, before freshness
-- freshness: 0 to 1, halved per 30 days since last_updated
-- score: raw_score times freshness, read at the moment
-- n_samples: traces counted
-- effective_samples: the same, each halved per 30 days of age
-- effective_grants: traces with a human's answer times the share granted, halved likewise
-- human_coverage: share of the samples that a human decided on, by weight
-- last_updated: the last clean trace, UTC
-- last_bad_at: the last denial, undo, violation or exclusion, UTC
-- last_grant_at: the last human grant that names it, UTC
-- version: entries recorded
-- rollbacks: rollbacks in force
--
-- From exact integers; the doubles are within a few units in the last place of those of the law,
-- which `trustfold score` prints. A moment beyond what has settled is refused.
CREATE OR REPLACE MACRO scores_as_of(moment) AS TABLE
WITH summed AS (
    SELECT * FROM sums_as_of(
        CASE WHEN moment > getvariable('settled')
        THEN error('the archive has settled up to ' || getvariable('settled')
                   || ' (us since 1970): it cannot say what was known at ' || moment)
        ELSE moment END)
), scaled AS (
    SELECT *, pow(2.0::DOUBLE, 8.0::DOUBLE * (blk - max(blk) OVER (PARTITION BY subject))) AS f,
           max(blk) OVER (PARTITION BY subject) AS top
    FROM summed
), total AS (
    SELECT subject, any_value(top) AS top,
           sum(x0::DOUBLE * f ORDER BY blk) AS x0, sum(x1::DOUBLE * f ORDER BY blk) AS x1,
           sum(x2::DOUBLE * f ORDER BY blk) AS x2, sum(x3::DOUBLE * f ORDER BY blk) AS x3,
           sum(x4::DOUBLE * f ORDER BY blk) AS x4, sum(d0::DOUBLE * f ORDER BY blk) AS d0,
           sum(d1::DOUBLE * f ORDER BY blk) AS d1, sum(d2::DOUBLE * f ORDER BY blk) AS d2,
           sum(d3::DOUBLE * f ORDER BY blk) AS d3, sum(d4::DOUBLE * f ORDER BY blk) AS d4,
           sum(sp_x::DOUBLE * f ORDER BY blk) AS sp_x, sum(sp_d::DOUBLE * f ORDER BY blk) AS sp_d,
           sum(n)::BIGINT AS n, sum(v)::BIGINT AS v, max(lu) AS lu, max(lb) AS lb, max(lg) AS lg
    FROM scaled GROUP BY subject
), valued AS (
    SELECT *,
           CASE WHEN (d0 + sp_d) = 0 THEN 0::DOUBLE
                ELSE (x0 + sp_x) / ((d0 + sp_d) * 1000000::DOUBLE) END AS tool_success,
           CASE WHEN d1 = 0 THEN 0.5::DOUBLE
                ELSE x1 / (d1 * 1000000::DOUBLE) END AS human_approval_rate,
           CASE WHEN d2 = 0 THEN 0.5::DOUBLE
                ELSE x2 / (d2 * 1000000::DOUBLE) END AS cost_efficiency,
           CASE WHEN d3 = 0 THEN 0.5::DOUBLE
                ELSE x3 / (d3 * 1000000::DOUBLE) END AS constitution_clean,
           CASE WHEN d4 = 0 THEN 0::DOUBLE ELSE x4 / (d4 * 1000000::DOUBLE) END AS undo_rate,
           CASE WHEN lu IS NULL THEN 0::DOUBLE
                ELSE least(1::DOUBLE, weight_of(lu, moment)) END AS freshness,
           pow(2.0::DOUBLE, (8 * top - era_of(moment))::DOUBLE) / mantissa_of(moment) AS per_now
    FROM total
), scored AS (
    SELECT *, 0.3::DOUBLE * tool_success + 0.25::DOUBLE * human_approval_rate
              + 0.2::DOUBLE * cost_efficiency + 0.15::DOUBLE * constitution_clean
              + 0.1::DOUBLE * (1::DOUBLE - undo_rate) AS raw_score
    FROM valued
), rolled AS (
    SELECT subject, count(*) AS rollbacks FROM rollbacks_as_of(moment) GROUP BY subject
)
SELECT subject::JSON ->> 0 AS scope, subject::JSON ->> 1 AS tool, subject::JSON ->> 2 AS effect,
       subject, tool_success, human_approval_rate, cost_efficiency, constitution_clean, undo_rate,
       raw_score, freshness, raw_score * freshness AS score, n AS n_samples,
       d4 * per_now AS effective_samples, x1 * per_now / 1000000::DOUBLE AS effective_grants,
       CASE WHEN d4 = 0 THEN 0::DOUBLE ELSE d1 / d4 END AS human_coverage,
       make_timestamp(lu) AS last_updated, make_timestamp(lb) AS last_bad_at,
       make_timestamp(lg) AS last_grant_at, v AS version, coalesce(rollbacks, 0) AS rollbacks
FROM scored LEFT JOIN rolled USING (subject);
