-- rollbacks_as_of(moment): the rollbacks recorded at or before a moment and not lifted by then.
-- subject: key of the subject
-- rollback_id: id of the rollback
-- low: where it goes back to, us since 1970
-- high: when it was recorded; entries with a moment of their chain in (low, high] do not count
CREATE OR REPLACE MACRO rollbacks_as_of(moment) AS TABLE
SELECT subject, rollback_id, low, high FROM (
    SELECT subject, rollback_id, to_us AS low, recorded_us AS high, kind
    FROM raw_ledger
    WHERE kind IN (6, 7) AND recorded_us <= moment
    QUALIFY row_number() OVER (
        PARTITION BY subject, rollback_id ORDER BY "offset" DESC, idx DESC
    ) = 1
) WHERE kind = 6;
