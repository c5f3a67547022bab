-- facts: every event that was accepted, as it was published and recorded.
-- topic: facts, policy or cost-median
-- partition: partition of the topic; 0 in the embedded store
-- offset: place in the partition
-- recorded: when the log took it, UTC
-- recorded_us: the same, us since 1970
-- occurred: the event's own time, UTC
-- occurred_us: the same, us since 1970
-- type: the event's type without `trustfold.`
-- source: the event's source
-- event_id: the event's id
-- trace_id: its trace; NULL where it is of none
-- role: role of its publisher
-- identity: who that was; NULL where the store knows none
-- scopes: the scopes it may speak of, a JSON array; NULL is all
-- body: the event's document, JSON
CREATE OR REPLACE VIEW facts AS
SELECT topic, partition, "offset",
       make_timestamp(recorded_us) AS recorded, recorded_us,
       make_timestamp(occurred_us) AS occurred, occurred_us,
       type, source, event_id, trace_id, role, identity, scopes, body::JSON AS body
FROM (
    SELECT 'facts' AS topic, * FROM raw_facts
    UNION ALL SELECT 'policy', * FROM raw_policy
    UNION ALL SELECT 'cost-median', * FROM raw_medians
) WHERE recorded_us <= getvariable('settled');
