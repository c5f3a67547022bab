-- sums_as_of(moment, by_entry := false): the exact sums of every subject as of a moment, by block of 8 eras.
-- subject: key of the subject
-- blk: era // 8; a sum stands for itself times 2**(8 * blk)
-- x0: sum of amount * g of tool_success, ppm
-- x1: the same of human_approval_rate
-- x2: the same of cost_efficiency
-- x3: the same of constitution_clean
-- x4: the same of undo_rate
-- d0: sum of weight * g of tool_success
-- d1: the same of human_approval_rate
-- d2: the same of cost_efficiency
-- d3: the same of constitution_clean
-- d4: the same of undo_rate
-- sp_x: sum of amount * g of self-play, ppm
-- sp_d: sum of weight * g of self-play
-- n: traces counted
-- v: entries recorded, whether they count or not
-- lu: last_updated, us since 1970
-- lb: last_bad_at, us since 1970; no rollback takes it away
-- lg: last_grant_at, us since 1970
--
-- Segments that lie wholly before the moment are read as their rollups, those that straddle it
-- entry by entry, and so are all of the subjects with a rollback in force; `by_entry` reads no
-- rollup. What is summed is a BIGINT: a weight within its block is below 2**38, an amount below
-- 2**20. Only m is shifted: `<<` throws on negative values.
CREATE OR REPLACE MACRO sums_as_of(moment, by_entry := false) AS TABLE
WITH rolled AS MATERIALIZED (
    SELECT subject, list({'low': low, 'high': high}) AS intervals
    FROM rollbacks_as_of(moment) GROUP BY subject
), judged AS (
    -- Dead is what has a moment of its chain, its own among them, in an interval.
    SELECT l.*, len(list_filter(r.intervals, lambda i:
        (l.recorded_us > i.low AND l.recorded_us <= i.high)
        OR len(list_filter(l.chain, lambda c: c > i.low AND c <= i.high)) > 0)) = 0 AS living
    FROM raw_ledger l JOIN rolled r USING (subject) WHERE l.recorded_us <= moment
), entries AS (
    SELECT subject, era, m, a0, a1, a2, a3, a4, w0, w1, w2, w3, w4, sp_a, sp_w, n,
           CASE WHEN clean THEN occurred_us END AS lu, bad_at, grant_at
    FROM raw_ledger ANTI JOIN rolled USING (subject)
    WHERE recorded_us <= moment AND (seg_max > moment OR by_entry)
    UNION ALL
    -- A rollback lifts no brake, and every entry is counted as recorded.
    SELECT subject, era, CASE WHEN living THEN m ELSE 0 END,
           a0, a1, a2, a3, a4, w0, w1, w2, w3, w4, sp_a, sp_w,
           CASE WHEN living THEN n ELSE 0 END, CASE WHEN living AND clean THEN occurred_us END,
           bad_at, CASE WHEN living THEN grant_at END
    FROM judged
), parts AS (
    SELECT subject, blk, x0, x1, x2, x3, x4, d0, d1, d2, d3, d4, sp_x, sp_d, n, v, lu, lb, lg
    FROM raw_rollups ANTI JOIN rolled USING (subject)
    WHERE seg_max <= moment AND NOT by_entry
    UNION ALL
    SELECT subject, (era >> 3)::INTEGER,
           a0 * g, a1 * g, a2 * g, a3 * g, a4 * g, w0 * g, w1 * g, w2 * g, w3 * g, w4 * g,
           sp_a * g, sp_w * g, n, 1, lu, bad_at, grant_at
    FROM (SELECT *, m::BIGINT << (era & 7)::INTEGER AS g FROM entries)
)
SELECT subject, blk,
       sum(x0)::DECIMAL(38, 0) AS x0, sum(x1)::DECIMAL(38, 0) AS x1,
       sum(x2)::DECIMAL(38, 0) AS x2, sum(x3)::DECIMAL(38, 0) AS x3,
       sum(x4)::DECIMAL(38, 0) AS x4, sum(d0)::DECIMAL(38, 0) AS d0,
       sum(d1)::DECIMAL(38, 0) AS d1, sum(d2)::DECIMAL(38, 0) AS d2,
       sum(d3)::DECIMAL(38, 0) AS d3, sum(d4)::DECIMAL(38, 0) AS d4,
       coalesce(sum(sp_x), 0)::DECIMAL(38, 0) AS sp_x,
       coalesce(sum(sp_d), 0)::DECIMAL(38, 0) AS sp_d,
       sum(n)::BIGINT AS n, sum(v)::BIGINT AS v, max(lu) AS lu, max(lb) AS lb, max(lg) AS lg
FROM parts GROUP BY subject, blk;
