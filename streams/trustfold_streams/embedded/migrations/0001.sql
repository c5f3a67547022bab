-- The first layout of a store. Instants are integers: microseconds since 1970, UTC.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- The log of facts. `recorded` is assigned here and grows strictly; `chain` is the SHA-256 of the
-- chain before and of this row, so that its last value stands for the whole log.
CREATE TABLE facts (
    recorded INTEGER PRIMARY KEY,
    key_hash INTEGER NOT NULL,
    type     TEXT    NOT NULL,
    role     TEXT    NOT NULL,
    identity TEXT,
    scopes   TEXT,
    body     TEXT    NOT NULL,
    chain    BLOB    NOT NULL
) STRICT;

CREATE INDEX facts_by_key ON facts (key_hash);
CREATE INDEX facts_of_medians ON facts (recorded) WHERE type = 'cost.median.v1';
CREATE INDEX facts_of_policy ON facts (recorded) WHERE type IN (
    'threshold.set.v1', 'threshold.removed.v1', 'effect.declared.v1', 'effect.removed.v1',
    'trust.revoked.v1', 'trust.reinstated.v1', 'policy.mode.v1'
);

CREATE TRIGGER facts_grow BEFORE INSERT ON facts
WHEN NEW.recorded <= (SELECT max(recorded) FROM facts)
BEGIN SELECT RAISE(ABORT, 'facts grow: recorded must be after the last'); END;
CREATE TRIGGER facts_stay BEFORE UPDATE ON facts
BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;
CREATE TRIGGER facts_are_kept BEFORE DELETE ON facts
BEGIN SELECT RAISE(ABORT, 'facts are append-only'); END;

CREATE TABLE subjects (
    subject_id INTEGER PRIMARY KEY,
    scope      TEXT NOT NULL,
    tool       TEXT NOT NULL,
    effect     TEXT NOT NULL,
    UNIQUE (scope, tool, effect)
) STRICT;

CREATE TRIGGER subjects_stay BEFORE UPDATE ON subjects
BEGIN SELECT RAISE(ABORT, 'subjects are append-only'); END;
CREATE TRIGGER subjects_are_kept BEFORE DELETE ON subjects
BEGIN SELECT RAISE(ABORT, 'subjects are append-only'); END;

-- Everything that ever moved a score. `prev` is the subject's entry before this one; `chain` the
-- earlier recorded moments of this trace and subject as JSON, absent where there are none.
-- a0..a4 are the amounts in ppm, w0..w4 the weights: tool_success, human_approval_rate,
-- cost_efficiency, constitution_clean, undo_rate. `rollback_id` is a rollback's own event id, or
-- that of the rollback which a rollback_lifted takes away.
CREATE TABLE ledger (
    position    INTEGER PRIMARY KEY,
    recorded    INTEGER NOT NULL,
    subject_id  INTEGER NOT NULL,
    prev        INTEGER,
    kind        INTEGER NOT NULL,
    revision    INTEGER NOT NULL,
    occurred    INTEGER NOT NULL,
    chain       TEXT,
    a0 INTEGER NOT NULL, a1 INTEGER NOT NULL, a2 INTEGER NOT NULL,
    a3 INTEGER NOT NULL, a4 INTEGER NOT NULL,
    w0 INTEGER NOT NULL, w1 INTEGER NOT NULL, w2 INTEGER NOT NULL,
    w3 INTEGER NOT NULL, w4 INTEGER NOT NULL,
    n           INTEGER NOT NULL,
    sp_a        INTEGER,
    sp_w        INTEGER,
    bad_at      INTEGER,
    grant_at    INTEGER,
    clean       INTEGER NOT NULL,
    median_usd  INTEGER,
    to_moment   INTEGER,
    rollback_id TEXT
) STRICT;

CREATE INDEX ledger_of_rollbacks ON ledger (subject_id) WHERE rollback_id IS NOT NULL;

CREATE TRIGGER ledger_stays BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER ledger_is_kept BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TABLE kinds (kind INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
INSERT INTO kinds VALUES (1, 'evidence'), (2, 'correction'), (3, 'brake'), (4, 'self_play'),
    (5, 'initial'), (6, 'rollback'), (7, 'rollback_lifted');

-- The materialized table: a cache of the fold of the ledger. `content` is what is digested.
CREATE TABLE scores (
    subject_id INTEGER PRIMARY KEY,
    content    TEXT NOT NULL,
    beside     TEXT NOT NULL,
    digest     BLOB NOT NULL,
    checksum   BLOB NOT NULL
) STRICT;

-- A summary of every trace, by its first fact. `closed` and `folded` are recorded moments.
CREATE TABLE traces (
    first_recorded INTEGER PRIMARY KEY,
    last_recorded  INTEGER NOT NULL,
    trace_id       TEXT    NOT NULL,
    scope          TEXT,
    outcome        TEXT,
    steps          INTEGER NOT NULL,
    step_count     INTEGER,
    feedback       INTEGER NOT NULL,
    facts          INTEGER NOT NULL,
    closed         INTEGER,
    folded         INTEGER,
    excluded       INTEGER NOT NULL
) STRICT;

CREATE INDEX traces_open ON traces (last_recorded) WHERE folded IS NULL;

-- What the log `policy` has set, as it is now; derived from the facts, as scores are.
CREATE TABLE thresholds (
    effect                TEXT    NOT NULL,
    risk_band             TEXT    NOT NULL,
    min_score_ppm         INTEGER NOT NULL,
    min_samples           INTEGER NOT NULL,
    min_grants            INTEGER NOT NULL,
    min_approval_rate_ppm INTEGER NOT NULL,
    cap_autonomy          TEXT,
    version               INTEGER NOT NULL,
    recorded              INTEGER NOT NULL,
    PRIMARY KEY (effect, risk_band)
) STRICT, WITHOUT ROWID;

-- Verdicts, recorded before they are given. The policy writes them; it comes with a later version,
-- and finds its table in every store.
CREATE TABLE decisions (
    decision_id TEXT    PRIMARY KEY,
    recorded    INTEGER NOT NULL,
    subject_id  INTEGER NOT NULL,
    trace_id    TEXT    NOT NULL,
    step_id     TEXT    NOT NULL,
    verdict     TEXT    NOT NULL,
    grounds     TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER decisions_stay BEFORE UPDATE ON decisions
BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END;
CREATE TRIGGER decisions_are_kept BEFORE DELETE ON decisions
BEGIN SELECT RAISE(ABORT, 'decisions are append-only'); END;

-- What was refused or could not be used: one row per distinct bytes and reason, with its
-- publisher's stamp, so that a replay speaks in the same role; `seal` is the SHA-256 of reason,
-- stamp and bytes. `replayed` is the moment at which it was taken in after all, `replayed_as` the
-- event id under which.
CREATE TABLE dead_letters (
    dead_letter_id INTEGER PRIMARY KEY,
    reason         TEXT    NOT NULL,
    detail         TEXT    NOT NULL,
    origin         TEXT    NOT NULL,
    first_recorded INTEGER NOT NULL,
    last_recorded  INTEGER NOT NULL,
    times          INTEGER NOT NULL,
    role           TEXT    NOT NULL,
    identity       TEXT,
    scopes         TEXT,
    body           BLOB    NOT NULL,
    body_sha256    BLOB    NOT NULL,
    seal           BLOB    NOT NULL,
    replayed       INTEGER,
    replayed_as    TEXT,
    UNIQUE (body_sha256, reason)
) STRICT;

-- The ledger in the words of SPEC 4, for people and SQL.
CREATE VIEW events AS
SELECT l.position,
       l.recorded,
       k.name                                             AS kind,
       s.scope,
       s.tool,
       s.effect,
       json_extract(f.body, '$.data.trace_id')            AS trace_id,
       json_extract(f.body, '$.id')                       AS event_id,
       json_extract(f.body, '$.source')                   AS source,
       CASE WHEN json_extract(f.body, '$.data.trace_id') IS NULL
            THEN json_array(json_extract(f.body, '$.source'), json_extract(f.body, '$.id'),
                            s.scope, s.tool, s.effect)
            ELSE json_array(json_extract(f.body, '$.data.trace_id'),
                            s.scope, s.tool, s.effect, l.revision)
       END                                                AS entry_id,
       l.revision,
       l.occurred,
       l.chain,
       l.a0 AS tool_success_ppm,        l.w0 AS tool_success_weight,
       l.a1 AS human_approval_rate_ppm, l.w1 AS human_approval_rate_weight,
       l.a2 AS cost_efficiency_ppm,     l.w2 AS cost_efficiency_weight,
       l.a3 AS constitution_clean_ppm,  l.w3 AS constitution_clean_weight,
       l.a4 AS undo_rate_ppm,           l.w4 AS undo_rate_weight,
       l.n  AS n_samples,
       l.sp_a AS self_play_ppm,         l.sp_w AS self_play_weight,
       l.bad_at,
       l.grant_at,
       l.clean,
       l.median_usd,
       l.to_moment,
       l.rollback_id,
       'ewm/1'                                            AS formula
FROM ledger l
JOIN facts f    ON f.recorded = l.recorded
JOIN subjects s ON s.subject_id = l.subject_id
JOIN kinds k    ON k.kind = l.kind;
