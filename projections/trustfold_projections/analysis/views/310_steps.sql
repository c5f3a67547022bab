-- steps: every step, from the closes and from those recorded singly; each once.
-- trace_id: its trace
-- scope: scope of the trace
-- step_id: its id in the trace
-- number: its place in the close, from 1; NULL if it was recorded singly
-- tool: the tool
-- effect: the effect class
-- status: ok, error or not_executed
-- error: a code
-- reversibility: reversible, reversible_with_cost or irreversible, as the step says
-- via: policy_allow, human, trust_promoted or not_gated
-- decision_id: the decision it carries
-- args_fingerprint: keyed fingerprint of its arguments
-- occurred_us: the time of the event that tells of it, us since 1970
-- recorded_us: when the log took that, us since 1970
CREATE OR REPLACE VIEW steps AS
WITH listed AS (
    SELECT trace_id, coalesce(body ->> '$.data.scope', '') AS scope, partition, "offset",
           occurred_us, recorded_us,
           unnest((body -> '$.data.steps')::JSON[]) AS step,
           unnest(range(1, coalesce(json_array_length(body, '$.data.steps'), 0)::BIGINT + 1))
               AS number
    FROM facts WHERE type = 'trace.closed.v1'
    UNION ALL
    SELECT trace_id, coalesce(body ->> '$.data.scope', ''), partition, "offset", occurred_us,
           recorded_us, body -> '$.data.step', NULL
    FROM facts WHERE type = 'step.recorded.v1'
)
SELECT trace_id, scope, step ->> '$.step_id' AS step_id, number, step ->> '$.tool' AS tool,
       step ->> '$.effect' AS effect, step ->> '$.status' AS status, step ->> '$.error' AS error,
       step ->> '$.reversibility' AS reversibility, step ->> '$.via' AS via,
       step ->> '$.decision_id' AS decision_id, step ->> '$.args_fingerprint' AS args_fingerprint,
       occurred_us, recorded_us
FROM listed
QUALIFY row_number() OVER (
    PARTITION BY trace_id, step ->> '$.step_id' ORDER BY partition, "offset"
) = 1;
