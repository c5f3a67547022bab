"""trustfold: has this tool earned the right to act without asking?

The public face: a trust ledger for tool-using agents, in one SQLite file.

>>> import asyncio, tempfile, trustfold
>>> async def a_first_score(path):
...     async with trustfold.open(path) as store:
...         await store.bulk_update_from_trace({
...             "trace_id": "t1", "outcome": "completed",
...             "steps": [{"step_id": "1", "tool": "fs_write", "effect": "fs_write:~/notes/*",
...                        "status": "ok"}],
...         })
...         await store.record_approval_outcome("t1", {
...             "decision": "granted", "step_ids": ["1"],
...             "decided_by": {"kind": "human", "id": "roberto"},
...         })
...         return await store.get(("fs_write", "fs_write:~/notes/*"))
>>> with tempfile.TemporaryDirectory() as folder:
...     score = asyncio.run(a_first_score(f"{folder}/trust.db"))
>>> score.n_samples, score.human_approval_rate, round(score.raw_score, 2)
(1, 1.0, 0.9)
"""

from trustfold_projections.laws.signals import TraceSignals, extract_signals
from trustfold_schemas.errors import EventRefused, TrustCorruptionError, TrustfoldError
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded.async_store import open_store as open  # noqa: A004 - the seed's word
from trustfold_streams.trust_store import TrustStore

__all__ = [
    "EventRefused",
    "Subject",
    "TraceSignals",
    "TrustCorruptionError",
    "TrustScore",
    "TrustStore",
    "TrustfoldError",
    "extract_signals",
    "open",
]
