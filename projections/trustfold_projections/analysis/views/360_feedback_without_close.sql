-- feedback_without_close: answers, undos and exclusions whose trace has not closed.
-- trace_id: the trace
-- type: the event's type
-- event_id: the event
-- recorded: when the log took it, UTC
-- recorded_us: the same, us since 1970
-- age_days: days between that and the settled moment
CREATE OR REPLACE VIEW feedback_without_close AS
SELECT trace_id, type, event_id, recorded, recorded_us,
       (getvariable('settled') - recorded_us) / 86400000000::DOUBLE AS age_days
FROM facts f ANTI JOIN (
    SELECT trace_id FROM facts WHERE type IN ('trace.closed.v1', 'signals.reported.v1')
) closed USING (trace_id)
WHERE type IN ('approval.decided.v1', 'undo.executed.v1', 'trace.excluded.v1', 'trace.included.v1')
ORDER BY recorded_us, partition, "offset";
