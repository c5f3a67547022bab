"""The queries over an archive's segments: which traces are plain, their actions, all entries.

They read the views `ledger` and `facts`, and the tables `subjects` (numbers and names) and `apart`
(subjects that go the exact way).
"""

from __future__ import annotations

from typing import Final

import msgspec

from trustfold_projections.analysis.backtest.columns import ASKED, BANDS, FAILED
from trustfold_projections.analysis.records import columns_of
from trustfold_projections.archive.schema import FACTS
from trustfold_projections.laws.correlation.outcome import FUTURE_MAX

SEVERAL: Final = """
CREATE TABLE several AS
SELECT trace_id FROM facts WHERE trace_id IS NOT NULL AND recorded_us <= $settled
GROUP BY trace_id HAVING count(*) > 1
"""

WANTED: Final = msgspec.json.encode(
    {
        "data": {
            "scope": "VARCHAR",
            "step_count": "BIGINT",
            "violations": ["JSON"],
            "steps": [
                dict.fromkeys(("tool", "effect", "status", "reversibility", "via"), "VARCHAR")
            ],
        }
    }
).decode()
# Through a list and back, so that the JSON is not read again for each use of what is in it. A close
# with a step count or violations is one row without a number, at its moment: the law must look.
PLAIN_ACTIONS: Final = f"""
CREATE TABLE plain AS
SELECT s.number, t.recorded_us AS moment,
       CASE t.step.reversibility {" ".join(f"WHEN '{b}' THEN {i}" for i, b in enumerate(BANDS))}
            ELSE -1 END::TINYINT AS band,
       (CASE WHEN t.step.via = 'human' THEN {ASKED} ELSE 0 END
        + CASE WHEN t.step.status = 'error' THEN {FAILED} ELSE 0 END)::TINYINT AS flags
FROM (
    SELECT recorded_us, coalesce(said.data.scope, '') AS scope, suspect,
           unnest(CASE WHEN suspect THEN [NULL] ELSE said.data.steps END) AS step
    FROM (
        SELECT recorded_us, said, said.data.step_count IS NOT NULL
               OR coalesce(len(said.data.violations), 0) > 0 AS suspect
        FROM (
            SELECT recorded_us, unnest([from_json(body, '{WANTED}')]) AS said
            FROM facts ANTI JOIN several USING (trace_id)
            WHERE recorded_us <= $settled AND type = 'trace.closed.v1'
              AND occurred_us <= recorded_us + {FUTURE_MAX}
        )
    )
) t LEFT JOIN subjects s ON s.scope = t.scope AND s.tool = t.step.tool AND s.effect = t.step.effect
WHERE t.suspect OR t.step.status <> 'not_executed' OR t.step.via = 'human'
"""

# A plain close may share its moment with one that is not; the reader tells them apart.
OTHERS: Final = f"""
SELECT {columns_of(FACTS)} FROM facts
WHERE trace_id IS NOT NULL AND recorded_us <= $settled
  AND (type <> 'trace.closed.v1' OR occurred_us > recorded_us + {FUTURE_MAX}
       OR trace_id IN (FROM several)
       OR recorded_us IN (SELECT moment FROM plain WHERE number IS NULL))
ORDER BY trace_id, partition, "offset"
"""

ENTRIES: Final = f"""
SELECT s.number, recorded_us, era, m, {", ".join(f"a{c}, w{c}" for c in range(5))}, n,
       CASE WHEN clean AND kind IN (1, 5) THEN occurred_us ELSE -1 END AS updated,
       coalesce(bad_at, -1) AS bad_at, coalesce(grant_at, -1) AS grant_at,
       kind = 1 AND clean AND bad_at IS NULL AS good,
       bad_at IS NOT NULL OR (kind = 1 AND NOT clean) AS worse
FROM ledger JOIN subjects s USING (subject)
WHERE recorded_us <= $settled AND subject >= $first AND subject <= $last
  AND number NOT IN (FROM apart)
ORDER BY number, recorded_us, "offset", idx
"""
