-- leaderboard: the subjects by score, those of whole traces apart (see outcomes).
-- place: 1 is the highest score
-- scope: scope of the subject
-- tool: tool of the subject
-- effect: effect class of the subject
-- score: 0 to 1, read at the settled moment
-- raw_score: 0 to 1, before freshness
-- n_samples: traces counted
-- effective_samples: the same, each halved per 30 days of age
-- last_bad_at: the last denial, undo, violation or exclusion, UTC
CREATE OR REPLACE VIEW leaderboard AS
SELECT row_number() OVER (ORDER BY score DESC, n_samples DESC, subject) AS place,
       scope, tool, effect, score, raw_score, n_samples, effective_samples, last_bad_at
FROM scores WHERE tool <> 'runtime' AND n_samples > 0 ORDER BY place;
