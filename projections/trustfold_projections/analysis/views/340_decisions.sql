-- decisions: every verdict of the policy, with what it rested on.
-- decision_id: its id, which the step carries
-- recorded: when it was given, UTC
-- recorded_us: the same, us since 1970
-- scope: scope of the subject
-- tool: tool of the subject
-- effect: effect class of the subject
-- trace_id: the trace of the action
-- step_id: the step of the action
-- verdict: allow or approve_required
-- would_be: what it would be but for shadow mode and spot checks
-- reason: code of the first reason
-- score: the score it rested on, 0 to 1
-- raw_score: the same before freshness
-- stale: why the table was not known to be caught up; NULL if it was
-- grounds: all it rested on, JSON
CREATE OR REPLACE VIEW decisions AS
SELECT decision_id, make_timestamp(recorded_us) AS recorded, recorded_us,
       subject::JSON ->> 0 AS scope, subject::JSON ->> 1 AS tool, subject::JSON ->> 2 AS effect,
       trace_id, step_id, verdict, would_be, reason,
       (grounds::JSON ->> '$.score')::DOUBLE AS score,
       (grounds::JSON ->> '$.raw_score')::DOUBLE AS raw_score, stale, grounds::JSON AS grounds
FROM raw_decisions;
