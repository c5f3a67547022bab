-- drift(earlier, later): the change of raw_score between two moments, of subjects known at both.
-- scope: scope of the subject
-- tool: tool of the subject
-- effect: effect class of the subject
-- before: raw_score as of the first moment
-- after: raw_score as of the second
-- change: after minus before
-- samples: traces counted in between
CREATE OR REPLACE MACRO drift(earlier, later) AS TABLE
SELECT scope, tool, effect, old.raw_score AS before, new.raw_score AS after,
       new.raw_score - old.raw_score AS change, new.n_samples - old.n_samples AS samples
FROM scores_as_of(earlier) old JOIN scores_as_of(later) new USING (scope, tool, effect)
ORDER BY abs(change) DESC, scope, tool, effect;
