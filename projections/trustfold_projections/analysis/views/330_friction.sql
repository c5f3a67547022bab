-- friction: how often people were asked about each tool and effect, and what they said.
-- scope: scope of the trace
-- tool: the tool
-- effect: the effect class
-- steps: steps of closed traces and single ones
-- asked: steps that an answer of a human names, or that say `via` human
-- granted: of these, granted by every human who answered
-- denied: of these, denied by any
-- expired: of these, nobody answered in time
-- asked_share: asked / steps
CREATE OR REPLACE VIEW friction AS
WITH answered AS (
    SELECT s.trace_id, s.step_id, bool_or(a.decision = 'denied') AS denied,
           bool_or(a.decision = 'granted') AS granted, bool_or(a.decision = 'expired') AS expired
    FROM steps s JOIN approvals a
      ON a.trace_id = s.trace_id AND a.by_kind = 'human'
     AND (list_contains(a.step_ids, s.step_id)
          OR (a.step_ids IS NULL AND a.subjects IS NULL AND a.decision = 'denied'))
    GROUP BY ALL
)
SELECT scope, tool, effect, count(*) AS steps,
       count(*) FILTER (via = 'human' OR a.step_id IS NOT NULL) AS asked,
       count(*) FILTER (granted AND NOT denied) AS granted,
       count(*) FILTER (denied) AS denied,
       count(*) FILTER (expired AND NOT granted AND NOT denied) AS expired,
       asked / steps AS asked_share
FROM steps s LEFT JOIN answered a USING (trace_id, step_id)
GROUP BY scope, tool, effect ORDER BY asked DESC, steps DESC, scope, tool, effect;
