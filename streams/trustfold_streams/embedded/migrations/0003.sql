-- The view of the ledger again: a `trace_id` is a trace's name only in an event of a trace. In any
-- other it is an unknown field, which is ignored. (An id that holds a NUL ends there in SQL.)

DROP VIEW events;

CREATE VIEW events AS
WITH named AS (
    SELECT recorded,
           json_extract(body, '$.id')     AS event_id,
           json_extract(body, '$.source') AS source,
           CASE WHEN type IN ('trace.closed.v1', 'signals.reported.v1', 'step.recorded.v1',
                              'approval.decided.v1', 'undo.executed.v1', 'trace.excluded.v1',
                              'trace.included.v1')
                THEN json_extract(body, '$.data.trace_id') END AS trace_id
    FROM facts
)
SELECT l.position,
       l.recorded,
       k.name                                             AS kind,
       s.scope,
       s.tool,
       s.effect,
       f.trace_id,
       f.event_id,
       f.source,
       CASE WHEN f.trace_id IS NULL
            THEN json_array(f.source, f.event_id, s.scope, s.tool, s.effect)
            ELSE json_array(f.trace_id, s.scope, s.tool, s.effect, l.revision)
       END                                                AS entry_id,
       l.revision,
       l.occurred,
       l.chain,
       l.a0 AS tool_success_ppm,        l.w0 AS tool_success_weight,
       l.a1 AS human_approval_rate_ppm, l.w1 AS human_approval_rate_weight,
       l.a2 AS cost_efficiency_ppm,     l.w2 AS cost_efficiency_weight,
       l.a3 AS constitution_clean_ppm,  l.w3 AS constitution_clean_weight,
       l.a4 AS undo_rate_ppm,           l.w4 AS undo_rate_weight,
       l.n  AS n_samples,
       l.sp_a AS self_play_ppm,         l.sp_w AS self_play_weight,
       l.bad_at,
       l.grant_at,
       l.clean,
       l.median_usd,
       l.to_moment,
       l.rollback_id,
       'ewm/1'                                            AS formula
FROM ledger l
JOIN named f    ON f.recorded = l.recorded
JOIN subjects s ON s.subject_id = l.subject_id
JOIN kinds k    ON k.kind = l.kind;
