-- The median of cost by (scope, effect): of an even number the mean of the middle two, rounded
-- down. `costs` is a row a trace and effect class; $first <= time < $end is the window. Integers
-- only, micro-USD; the middle one of an odd number is its own neighbour.
WITH ranked AS (
    SELECT scope,
           effect,
           cost_usd,
           row_number() OVER (PARTITION BY scope, effect ORDER BY cost_usd) AS place,
           count(*) OVER (PARTITION BY scope, effect)                       AS samples
    FROM costs
    WHERE time_us >= $first AND time_us < $end
)
SELECT scope,
       effect,
       (sum(cost_usd) // count(*))::BIGINT AS median_usd,
       any_value(samples)                  AS samples
FROM ranked
WHERE samples >= $samples_min
  AND place IN ((samples + 1) // 2, samples // 2 + 1)
GROUP BY scope, effect
ORDER BY scope, effect
