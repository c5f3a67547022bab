-- Decisions as the policy writes them. No store of the first layout held any, so its table goes.

DROP TRIGGER decisions_stay;
DROP TRIGGER decisions_are_kept;
DROP TABLE decisions;

-- Verdicts, recorded before they are given. `said` is the caller's own reversibility, `grounds` the
-- verdict as JSON, `chain` the SHA-256 of the chain before and of this row.
CREATE TABLE decisions (
    position         INTEGER PRIMARY KEY,
    recorded         INTEGER NOT NULL,
    decision_id      TEXT    NOT NULL UNIQUE,
    scope            TEXT    NOT NULL,
    tool             TEXT    NOT NULL,
    effect           TEXT    NOT NULL,
    trace_id         TEXT    NOT NULL,
    step_id          TEXT    NOT NULL,
    args_fingerprint TEXT,
    said             TEXT,
    verdict          TEXT    NOT NULL,
    would_be         TEXT    NOT NULL,
    reason           TEXT    NOT NULL,
    stale            TEXT,
    owed_to          TEXT,
    grounds          TEXT    NOT NULL,
    chain            BLOB    NOT NULL
) STRICT;

CREATE INDEX decisions_of_traces ON decisions (trace_id, step_id);
CREATE INDEX decisions_of_subjects ON decisions (tool, effect, scope);

CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions
BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END;
CREATE TRIGGER decisions_are_kept BEFORE DELETE ON decisions
BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END;
