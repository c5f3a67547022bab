-- promotions: actions that went without asking because of trust, and what went wrong after them.
-- decision_id: the decision; NULL where a step says `via` trust_promoted and carries none
-- trace_id: the trace
-- step_id: the step
-- scope: scope of the trace
-- tool: the tool
-- effect: the effect class
-- score: the score it rested on, 0 to 1; NULL where the decision is not archived
-- occurred_us: when the step was told of, us since 1970
-- failed: the step ended in an error
-- undone: a human undid it, by name or with its whole trace
-- denied: a human denied it, by name or with its whole trace
-- violated: the trace broke a law 0 to 2 in this step, or in none that it names
-- went_wrong: any of these
CREATE OR REPLACE VIEW promotions AS
WITH promoted AS (
    SELECT s.*, d.score FROM steps s LEFT JOIN decisions d USING (decision_id)
    WHERE s.via = 'trust_promoted' OR (d.verdict = 'allow' AND s.status <> 'not_executed')
), broken AS (
    SELECT trace_id, violation ->> '$.step_id' AS step_id FROM (
        SELECT trace_id, unnest((body -> '$.data.violations')::JSON[]) AS violation
        FROM facts WHERE type = 'trace.closed.v1'
    ) WHERE (violation ->> '$.law')::INTEGER <= 2
), judged AS (
    SELECT decision_id, trace_id, step_id, scope, tool, effect, score, occurred_us,
           status = 'error' AS failed,
           EXISTS (FROM undos u WHERE u.trace_id = p.trace_id AND u.by_kind = 'human'
                   AND coalesce(list_contains(u.step_ids, p.step_id), u.subjects IS NULL))
               AS undone,
           EXISTS (FROM approvals a WHERE a.trace_id = p.trace_id AND a.by_kind = 'human'
                   AND a.decision = 'denied'
                   AND coalesce(list_contains(a.step_ids, p.step_id), a.subjects IS NULL))
               AS denied,
           EXISTS (FROM broken b WHERE b.trace_id = p.trace_id
                   AND coalesce(b.step_id = p.step_id, true)) AS violated
    FROM promoted p
)
SELECT *, failed OR undone OR denied OR violated AS went_wrong FROM judged
ORDER BY occurred_us, trace_id, step_id;
