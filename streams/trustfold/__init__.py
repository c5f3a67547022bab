"""trustfold: has this tool earned the right to act without asking?

The public face: a trust ledger for tool-using agents, in one SQLite file with `open`, or on Kafka
with `connect`; both give the same TrustStore.

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

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from trustfold_projections.laws.policy import TrustThresholdRegistry
from trustfold_projections.laws.signals import TraceSignals, extract_signals
from trustfold_schemas.decisions import Action, Decision, ReasonCode, TrustThreshold, Verdict
from trustfold_schemas.errors import (
    EventRefused,
    ThresholdNotFoundError,
    TrustCorruptionError,
    TrustfoldError,
)
from trustfold_schemas.facts import Role
from trustfold_schemas.scores import TrustScore
from trustfold_schemas.subject import Subject
from trustfold_streams.embedded.async_store import AsyncEmbeddedStore
from trustfold_streams.embedded.async_store import open_store as open  # noqa: A004 - the seed's word
from trustfold_streams.importers import effect_class_of
from trustfold_streams.kafka.errors import BrokerError, StaleTableError
from trustfold_streams.self_play import SelfPlayCoordinator, SelfPlayResult, SelfPlaySkipped
from trustfold_streams.trust_store import TrustPolicy, TrustStore

if TYPE_CHECKING:
    from trustfold_streams.kafka.store import AsyncKafkaStore

__all__ = [
    "Action",
    "BrokerError",
    "Decision",
    "EventRefused",
    "ReasonCode",
    "SelfPlayCoordinator",
    "SelfPlayResult",
    "SelfPlaySkipped",
    "StaleTableError",
    "Subject",
    "ThresholdNotFoundError",
    "TraceSignals",
    "TrustCorruptionError",
    "TrustPolicy",
    "TrustScore",
    "TrustStore",
    "TrustThreshold",
    "TrustThresholdRegistry",
    "TrustfoldError",
    "Verdict",
    "connect",
    "effect_class_of",
    "extract_signals",
    "open",
    "policy_of",
]


def connect(
    bootstrap: str | None = None, *, role: Role = "owner", config: str | Path | None = None
) -> AsyncKafkaStore:
    """Connect to a pipeline on Kafka: `async with trustfold.connect("host:9092") as store`.

    `bootstrap` is `host:port[,host:port]`; without it the broker is the one that the environment
    or `config` names, a TOML file with the table [kafka] (default: the one TRUSTFOLD_CONFIG
    names). It speaks in one role: the topics that its events go to are that role's.

    Writers return when the broker has what they wrote; the score follows. Readers answer from
    memory, and raise StaleTableError unless the table is known to be complete as of the last
    minute.

    Raises:
        StreamsExtraError: the extra is not installed: pip install 'trustfold[streams]'.
        KafkaSettingsError: a setting cannot be used; names it.
    """
    from trustfold_streams.kafka.extra import require_extra

    require_extra()
    from trustfold_streams.kafka.store import connect as connect_to

    return connect_to(bootstrap, role=role, config=config)


def policy_of(
    store: AsyncEmbeddedStore | AsyncKafkaStore, role: Role = "owner"
) -> AbstractAsyncContextManager[TrustPolicy]:
    """The policy of an open store: `async with trustfold.policy_of(store) as policy`.

    A store in a file is its own policy, in the role that it was opened in. On Kafka it reads and
    writes topics of its own, in this role.
    """
    if isinstance(store, AsyncEmbeddedStore):
        return nullcontext(store)
    from trustfold_streams.kafka.policy import KafkaPolicy

    return KafkaPolicy.of(store, role)
