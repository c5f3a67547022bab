-- sums_as_of(moment, by_entry := false): the exact sums of every subject as of a moment, by block of 32 eras.
-- subject: key of the subject
-- blk: era // 32; a sum stands for itself times 2**(32 * blk)
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
-- rollup. Products in BIGINT
-- inside, powers of two multiplied outside: `<<` throws on negative values.
CREATE OR REPLACE MACRO sums_as_of(moment, by_entry := false) AS TABLE
WITH rolled AS MATERIALIZED (
    SELECT subject, list({'low': low, 'high': high}) AS intervals
    FROM rollbacks_as_of(moment) GROUP BY subject
), living AS (
    -- Dead is what has a moment of its chain, its own among them, in an interval.
    SELECT l.* FROM raw_ledger l JOIN rolled r USING (subject)
    WHERE l.recorded_us <= moment AND len(list_filter(r.intervals, lambda i:
        (l.recorded_us > i.low AND l.recorded_us <= i.high)
        OR len(list_filter(l.chain, lambda c: c > i.low AND c <= i.high)) > 0)) = 0
), parts AS (
    SELECT subject, blk,
           sum(x0_hi)::HUGEINT * 2251799813685248 + sum(x0_lo) AS x0,
           sum(x1_hi)::HUGEINT * 2251799813685248 + sum(x1_lo) AS x1,
           sum(x2_hi)::HUGEINT * 2251799813685248 + sum(x2_lo) AS x2,
           sum(x3_hi)::HUGEINT * 2251799813685248 + sum(x3_lo) AS x3,
           sum(x4_hi)::HUGEINT * 2251799813685248 + sum(x4_lo) AS x4,
           sum(d0_hi)::HUGEINT * 2251799813685248 + sum(d0_lo) AS d0,
           sum(d1_hi)::HUGEINT * 2251799813685248 + sum(d1_lo) AS d1,
           sum(d2_hi)::HUGEINT * 2251799813685248 + sum(d2_lo) AS d2,
           sum(d3_hi)::HUGEINT * 2251799813685248 + sum(d3_lo) AS d3,
           sum(d4_hi)::HUGEINT * 2251799813685248 + sum(d4_lo) AS d4,
           sum(sp_x_hi)::HUGEINT * 2251799813685248 + sum(sp_x_lo) AS sp_x,
           sum(sp_d_hi)::HUGEINT * 2251799813685248 + sum(sp_d_lo) AS sp_d,
           sum(n) AS n, sum(v) AS v, max(lu) AS lu, max(lb) AS lb, max(lg) AS lg
    FROM raw_rollups ANTI JOIN rolled USING (subject)
    WHERE seg_max <= moment AND NOT by_entry GROUP BY subject, blk
    UNION ALL
    SELECT subject, (era >> 5)::INTEGER AS blk,
           sum(x0 * (1::HUGEINT << (era & 31)::INTEGER)) AS x0,
           sum(x1 * (1::HUGEINT << (era & 31)::INTEGER)) AS x1,
           sum(x2 * (1::HUGEINT << (era & 31)::INTEGER)) AS x2,
           sum(x3 * (1::HUGEINT << (era & 31)::INTEGER)) AS x3,
           sum(x4 * (1::HUGEINT << (era & 31)::INTEGER)) AS x4,
           sum(d0 * (1::HUGEINT << (era & 31)::INTEGER)) AS d0,
           sum(d1 * (1::HUGEINT << (era & 31)::INTEGER)) AS d1,
           sum(d2 * (1::HUGEINT << (era & 31)::INTEGER)) AS d2,
           sum(d3 * (1::HUGEINT << (era & 31)::INTEGER)) AS d3,
           sum(d4 * (1::HUGEINT << (era & 31)::INTEGER)) AS d4,
           sum(sp_x * (1::HUGEINT << (era & 31)::INTEGER)) AS sp_x,
           sum(sp_d * (1::HUGEINT << (era & 31)::INTEGER)) AS sp_d,
           sum(n), sum(v), max(lu), max(lb), max(lg)
    FROM (
        SELECT subject, era,
               sum(a0::BIGINT * m) AS x0, sum(a1::BIGINT * m) AS x1, sum(a2::BIGINT * m) AS x2,
               sum(a3::BIGINT * m) AS x3, sum(a4::BIGINT * m) AS x4, sum(w0::BIGINT * m) AS d0,
               sum(w1::BIGINT * m) AS d1, sum(w2::BIGINT * m) AS d2, sum(w3::BIGINT * m) AS d3,
               sum(w4::BIGINT * m) AS d4, sum(coalesce(sp_a, 0)::BIGINT * m) AS sp_x,
               sum(coalesce(sp_w, 0)::BIGINT * m) AS sp_d,
               sum(n) AS n, count(*) AS v, max(occurred_us) FILTER (clean) AS lu,
               max(bad_at) AS lb, max(grant_at) AS lg
        FROM raw_ledger ANTI JOIN rolled USING (subject)
        WHERE recorded_us <= moment AND (seg_max > moment OR by_entry) GROUP BY subject, era
    ) GROUP BY subject, blk
    UNION ALL
    SELECT subject, (era >> 5)::INTEGER AS blk,
           sum(x0 * (1::HUGEINT << (era & 31)::INTEGER)) AS x0,
           sum(x1 * (1::HUGEINT << (era & 31)::INTEGER)) AS x1,
           sum(x2 * (1::HUGEINT << (era & 31)::INTEGER)) AS x2,
           sum(x3 * (1::HUGEINT << (era & 31)::INTEGER)) AS x3,
           sum(x4 * (1::HUGEINT << (era & 31)::INTEGER)) AS x4,
           sum(d0 * (1::HUGEINT << (era & 31)::INTEGER)) AS d0,
           sum(d1 * (1::HUGEINT << (era & 31)::INTEGER)) AS d1,
           sum(d2 * (1::HUGEINT << (era & 31)::INTEGER)) AS d2,
           sum(d3 * (1::HUGEINT << (era & 31)::INTEGER)) AS d3,
           sum(d4 * (1::HUGEINT << (era & 31)::INTEGER)) AS d4,
           sum(sp_x * (1::HUGEINT << (era & 31)::INTEGER)) AS sp_x,
           sum(sp_d * (1::HUGEINT << (era & 31)::INTEGER)) AS sp_d,
           sum(n), 0, max(lu), NULL, max(lg)
    FROM (
        SELECT subject, era,
               sum(a0::BIGINT * m) AS x0, sum(a1::BIGINT * m) AS x1, sum(a2::BIGINT * m) AS x2,
               sum(a3::BIGINT * m) AS x3, sum(a4::BIGINT * m) AS x4, sum(w0::BIGINT * m) AS d0,
               sum(w1::BIGINT * m) AS d1, sum(w2::BIGINT * m) AS d2, sum(w3::BIGINT * m) AS d3,
               sum(w4::BIGINT * m) AS d4, sum(coalesce(sp_a, 0)::BIGINT * m) AS sp_x,
               sum(coalesce(sp_w, 0)::BIGINT * m) AS sp_d,
               sum(n) AS n, max(occurred_us) FILTER (clean) AS lu, max(grant_at) AS lg
        FROM living GROUP BY subject, era
    ) GROUP BY subject, blk
    UNION ALL
    -- A rollback lifts no brake, and every entry is counted as recorded.
    SELECT subject, 0 AS blk, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
           0, count(*), NULL, max(bad_at), NULL
    FROM raw_ledger SEMI JOIN rolled USING (subject)
    WHERE recorded_us <= moment GROUP BY subject
)
SELECT subject, blk,
       sum(x0)::DECIMAL(38, 0) AS x0, sum(x1)::DECIMAL(38, 0) AS x1,
       sum(x2)::DECIMAL(38, 0) AS x2, sum(x3)::DECIMAL(38, 0) AS x3,
       sum(x4)::DECIMAL(38, 0) AS x4, sum(d0)::DECIMAL(38, 0) AS d0,
       sum(d1)::DECIMAL(38, 0) AS d1, sum(d2)::DECIMAL(38, 0) AS d2,
       sum(d3)::DECIMAL(38, 0) AS d3, sum(d4)::DECIMAL(38, 0) AS d4,
       sum(sp_x)::DECIMAL(38, 0) AS sp_x, sum(sp_d)::DECIMAL(38, 0) AS sp_d,
       sum(n)::BIGINT AS n, sum(v)::BIGINT AS v, max(lu) AS lu, max(lb) AS lb, max(lg) AS lg
FROM parts GROUP BY subject, blk;
