-- traces: every closed trace, as its first close has it.
-- trace_id: the trace
-- scope: its scope
-- session: the session it belongs to
-- agent: the agent that ran it
-- outcome: how it ended
-- cost_usd: what it cost, USD as published
-- steps: steps that the close lists
-- violations: laws of the constitution that it broke
-- occurred: when it closed, UTC
-- occurred_us: the same, us since 1970
-- recorded_us: when the log took the close, us since 1970
CREATE OR REPLACE VIEW traces AS
SELECT trace_id, coalesce(body ->> '$.data.scope', '') AS scope,
       body ->> '$.data.session' AS session, body ->> '$.data.agent' AS agent,
       body ->> '$.data.outcome' AS outcome,
       (body ->> '$.data.cost_usd')::DECIMAL(18, 6) AS cost_usd,
       coalesce(json_array_length(body, '$.data.steps'), 0)::BIGINT AS steps,
       coalesce(json_array_length(body, '$.data.violations'), 0)::BIGINT AS violations,
       occurred, occurred_us, recorded_us
FROM facts WHERE type = 'trace.closed.v1'
QUALIFY row_number() OVER (PARTITION BY trace_id ORDER BY partition, "offset") = 1;
