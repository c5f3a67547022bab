-- high_approval_low_success: what people grant and what then fails: approval that is not read.
-- scope: scope of the subject
-- tool: tool of the subject
-- effect: effect class of the subject
-- human_approval_rate: 0.9 and more, by people's answers
-- tool_success: below 0.7
-- human_coverage: share of the samples that a human decided on
-- n_samples: traces counted
CREATE OR REPLACE VIEW high_approval_low_success AS
SELECT scope, tool, effect, human_approval_rate, tool_success, human_coverage, n_samples
FROM scores
WHERE human_coverage > 0 AND human_approval_rate >= 0.9 AND tool_success < 0.7
  AND tool <> 'runtime'
ORDER BY tool_success, n_samples DESC, scope, tool, effect;
