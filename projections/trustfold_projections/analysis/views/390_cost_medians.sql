-- cost_medians: the medians of cost that were published; of two for one moment the first holds.
-- scope: scope of the traces
-- effect: effect class
-- effective_at: from when it measures, UTC
-- median_usd: the median, USD
-- samples: traces it rests on; below 20 it measures nothing
-- recorded: when the log took it, UTC
CREATE OR REPLACE VIEW cost_medians AS
SELECT coalesce(body ->> '$.data.scope', '') AS scope, body ->> '$.data.effect' AS effect,
       (body ->> '$.data.effective_at')::TIMESTAMPTZ::TIMESTAMP AS effective_at,
       (body ->> '$.data.median_usd')::DECIMAL(18, 6) AS median_usd,
       (body ->> '$.data.samples')::BIGINT AS samples, recorded
FROM facts WHERE type = 'cost.median.v1'
QUALIFY row_number() OVER (
    PARTITION BY scope, effect, effective_at ORDER BY partition, "offset"
) = 1;
