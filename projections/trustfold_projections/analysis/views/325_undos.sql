-- undos: every undo.
-- trace_id: its trace
-- by_kind: human, rule or policy
-- by_id: who; the publisher's identity before what the event says
-- step_ids: the steps it names; NULL if none
-- subjects: the subjects it names, JSON; NULL if none
-- occurred_us: when it was done, us since 1970
-- recorded_us: when the log took it, us since 1970
CREATE OR REPLACE VIEW undos AS
SELECT trace_id, body ->> '$.data.by.kind' AS by_kind,
       coalesce(identity, body ->> '$.data.by.id') AS by_id,
       (body -> '$.data.step_ids')::VARCHAR[] AS step_ids, body -> '$.data.subjects' AS subjects,
       occurred_us, recorded_us
FROM facts WHERE type = 'undo.executed.v1'
QUALIFY row_number() OVER (
    PARTITION BY trace_id, source, event_id ORDER BY partition, "offset"
) = 1;
