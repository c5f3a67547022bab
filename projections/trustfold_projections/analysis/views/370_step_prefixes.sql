-- step_prefixes: how traces begin alike: sequences of up to 6 first steps that two or more share.
-- scope: scope of the traces
-- length: steps in the prefix
-- prefix: the tools in order
-- traces: traces that begin so
-- completed: of these, those whose every executed step was ok
-- mean_steps: steps that such a trace lists, on average
CREATE OR REPLACE VIEW step_prefixes AS
WITH per_trace AS (
    SELECT trace_id, scope, list(tool ORDER BY number) AS tools,
           bool_and(status <> 'error') AS completed, count(*) AS steps
    FROM steps WHERE number IS NOT NULL GROUP BY trace_id, scope
), prefixes AS (
    SELECT scope, length, tools[1:length] AS prefix, completed, steps
    FROM (SELECT *, unnest(range(1, least(6, steps) + 1)) AS length FROM per_trace)
)
SELECT scope, length, prefix, count(*) AS traces, count(*) FILTER (completed) AS completed,
       avg(steps) AS mean_steps
FROM prefixes GROUP BY scope, length, prefix HAVING count(*) > 1
ORDER BY length, traces DESC, scope, prefix;
