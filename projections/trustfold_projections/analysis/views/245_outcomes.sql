-- outcomes: whole traces by how they ended.
-- scope: scope of the traces
-- outcome: how they ended
-- n_samples: traces counted
-- effective_samples: the same, each halved per 30 days of age
-- tool_success: share of ok steps, weighed by age
-- raw_score: 0 to 1
CREATE OR REPLACE VIEW outcomes AS
SELECT scope, effect AS outcome, n_samples, effective_samples, tool_success, raw_score
FROM scores WHERE tool = 'runtime' ORDER BY n_samples DESC, scope, outcome;
