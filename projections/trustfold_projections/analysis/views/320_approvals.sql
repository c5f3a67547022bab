-- approvals: every answer to a question for approval.
-- trace_id: its trace
-- decision: granted, denied or expired
-- by_kind: human, rule or policy
-- by_id: who; the publisher's identity before what the event says
-- step_ids: the steps it names; NULL if none
-- subjects: the subjects it names, JSON; NULL if none
-- grants_visible: false where the log it came from shows refusals only
-- occurred: when it was given, UTC
-- occurred_us: the same, us since 1970
-- recorded_us: when the log took it, us since 1970
CREATE OR REPLACE VIEW approvals AS
SELECT trace_id, body ->> '$.data.decision' AS decision,
       body ->> '$.data.decided_by.kind' AS by_kind,
       coalesce(identity, body ->> '$.data.decided_by.id') AS by_id,
       (body -> '$.data.step_ids')::VARCHAR[] AS step_ids, body -> '$.data.subjects' AS subjects,
       coalesce((body ->> '$.data.grants_visible')::BOOLEAN, true) AS grants_visible,
       occurred, occurred_us, recorded_us
FROM facts WHERE type = 'approval.decided.v1'
QUALIFY row_number() OVER (
    PARTITION BY trace_id, source, event_id ORDER BY partition, "offset"
) = 1;
