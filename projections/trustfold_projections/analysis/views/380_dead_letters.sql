-- dead_letters: what was refused or could not be used, as it first came.
-- partition: partition of the topic
-- offset: place in the partition; in the embedded store the number of the dead letter
-- recorded: when it was refused, UTC
-- recorded_us: the same, us since 1970
-- reason: why
-- detail: what was got and what was wanted
-- origin: where the bytes came from
-- role: role of the publisher
-- identity: who that was; NULL where the store knows none
-- body: the original bytes
CREATE OR REPLACE VIEW dead_letters AS
SELECT partition, "offset", make_timestamp(recorded_us) AS recorded, recorded_us, reason, detail,
       origin, role, identity, body
FROM raw_dead_letters;
