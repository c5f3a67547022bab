"""The store of the command line on a broker: the port `Store`, over topics, in calls that wait.

Reads of scores refuse unless the table is known to be complete as of the last minute; what is said
as of a moment comes from the ledger, and is refused beyond what every partition has settled.
Where to look instead: `store` is the async one for runtimes.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Literal

from trustfold_projections.laws.explanation import Explanation, explain, state_if
from trustfold_projections.laws.fold import refold_as_of
from trustfold_projections.laws.leaderboard import Leaderboard, leaderboard_of
from trustfold_schemas import actions
from trustfold_schemas.dead_letters import Reason
from trustfold_schemas.errors import UnknownNameError
from trustfold_schemas.facts import OWNER, Stamp
from trustfold_schemas.ledger import Entry
from trustfold_schemas.pending import Pending
from trustfold_schemas.receipts import Document, Receipt, Summary
from trustfold_schemas.scores import Corrupt, State
from trustfold_schemas.status import PipelineStatus
from trustfold_schemas.stored_dead_letters import StoredDeadLetter
from trustfold_schemas.subject import Subject
from trustfold_streams.clock import Clock
from trustfold_streams.kafka import facts, pipeline_progress
from trustfold_streams.kafka.calls import BrokerCalls
from trustfold_streams.kafka.dead_letters import read_letters
from trustfold_streams.kafka.errors import StaleTableError
from trustfold_streams.kafka.reading import TopicReader
from trustfold_streams.kafka.replaying import replay
from trustfold_streams.kafka.sending import Sender
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.visit import rollbacks_of
from trustfold_streams.store_port import BATCH

SOURCE = "trustfold/kafka"
"""The source of events that are published by a call on the store."""


class KafkaStore(BrokerCalls):
    """An open store on a broker.

    Raises StaleTableError where what was asked for is not known to be complete.
    """

    def __init__(
        self, settings: KafkaSettings, stamp: Stamp = OWNER, clock: Clock | None = None
    ) -> None:
        super().__init__(settings, stamp, clock)
        self._reader = TopicReader(settings)

    # ---- the table -----------------------------------------------------------------------------

    def state(self, subject: Subject) -> State | None:
        """A subject's state from the table, or None. Raises TrustCorruptionError."""
        return self._run(self._visit.table()).state(subject)

    def states(self) -> list[State | Corrupt]:
        """The table, in the order of subjects."""
        return list(self._run(self._visit.table()).states())

    def rollback_subject(self, rollback_id: str) -> Subject:
        """The subject that a rollback in force is of. Raises UnknownNameError."""
        for state in self._run(self._visit.table()).states():
            if isinstance(state, State) and rollback_id in rollbacks_of(state):
                return state.subject
        raise UnknownNameError(f"no rollback in force is named {rollback_id!r}")

    # ---- the ledger ----------------------------------------------------------------------------

    def settled(self, moment: int) -> bool:
        """Whether nothing will be recorded at or before a moment any more."""
        return moment <= self._run(self._visit.progress()).settled_up_to()

    def state_as_of(self, subject: Subject, moment: int) -> State | None:
        """A subject's state as of a moment. Raises NotSettledError, and LostInputError."""

        async def read() -> State:
            await self._visit.settle(moment)
            self._visit.need("ledger")
            return refold_as_of(subject, await self._reader.entries(subject), moment)

        state = self._run(read())
        return state if state.version else None

    def states_as_of(self, moment: int) -> list[State]:
        """The table as of a moment, in the order of subjects; raises as `state_as_of`."""

        async def read() -> list[State]:
            await self._visit.settle(moment)
            self._visit.need("ledger")
            return await self._reader.states_as_of(moment)

        return self._run(read())

    def leaderboard(self, top: int, now: int, as_of: int | None = None) -> Leaderboard:
        """The best at the moment `now`, of the table or as of a moment. Raises NotSettledError."""
        return leaderboard_of(
            self.states() if as_of is None else self.states_as_of(as_of), top, now
        )

    async def _entries(self, subject: Subject) -> list[Entry]:
        await self._visit.complete()
        self._visit.need("ledger")
        return await self._reader.entries(subject)

    def entries(self, subject: Subject) -> list[Entry]:
        """A subject's ledger entries, in log order."""
        return self._run(self._entries(subject))

    def entries_without(self, subject: Subject, name: str) -> list[Entry]:
        """A subject's ledger had an event or a trace never been. Raises UnknownNameError."""

        async def read() -> list[Entry]:
            entries = await self._entries(subject)
            self._visit.need("facts", "cost-median")
            return await facts.entries_without(self.settings, subject, entries, name)

        return self._run(read())

    def explain(self, subject: Subject, now: int, latest: int = 10) -> Explanation | None:
        """A subject's score taken apart, with its latest entries; None if nothing touched it."""
        entries = self.entries(subject)
        return explain(subject, entries, now, latest) if entries else None

    def state_if(
        self, subject: Subject, *, to: int | None = None, lift: str | None = None
    ) -> State:
        """A subject's state if it were rolled back to a moment, or a rollback were lifted."""
        return state_if(subject, self.entries(subject), self.clock.now(), to=to, lift=lift)

    def pending(self) -> list[Pending]:
        """Every trace that is not finished, the oldest first."""

        async def read() -> list[Pending]:
            await self._visit.complete()
            self._visit.need("traces")
            return await self._reader.pending(self.clock.now())

        return self._run(read())

    def status(self) -> PipelineStatus:
        """What the topics hold and how far the stages are, whether any of them works or not."""

        async def read() -> PipelineStatus:
            found = await self._visit.progress()
            self._visit.need("dead-letters")
            letters = await read_letters(self.settings, replayed=True)
            reasons = sorted(one.reason.value for one in letters)
            complete, stale = found.table.complete_as_of(), False
            try:
                found.table.refuse_if_stale()
            except StaleTableError:
                stale = True
            return PipelineStatus(
                bootstrap=self.settings.bootstrap,
                prefix=self.settings.prefix,
                topics=await pipeline_progress.topic_statuses(self.settings, self._visit.have),
                stages=await found.stages(),
                dead_letters_by_reason={name: reasons.count(name) for name in reasons},
                complete_as_of=complete or None,
                stale=stale,
            )

        return self._run(read())

    # ---- writing -------------------------------------------------------------------------------

    def ingest(
        self,
        documents: Iterable[Document],
        stamp: Stamp | None = None,
        *,
        batch: int = BATCH,
        committed: Callable[[list[Receipt]], None] = lambda _: None,
    ) -> Summary:
        """Publish documents; `committed` is told of each `batch` once the broker has it.

        Accepted is what the broker acknowledged. Refused by itself is a dead letter, counted here
        and kept by the pipeline; duplicates and conflicts only the pipeline can tell. Where this
        fails midway, what `committed` was told of is there, and more may be: publish all of it
        again, which has no effect on what arrived.
        """
        summary, some = Summary(), iter(documents)
        sender = Sender(self._run(self._visit.publisher(stamp or self.stamp)))
        while bodies := [document.body for document in islice(some, batch)]:
            receipts, error = self._run(sender.send(bodies))
            summary.count(receipts)
            committed(receipts)
            if error is not None:
                raise error
        return summary

    async def _say(self, write: Callable[[actions.Author], bytes]) -> str:
        author = actions.Author(SOURCE, str(uuid.uuid4()), self.clock.now())
        await (await self._visit.publisher(self.stamp)).publish(write(author))
        return author.event_id

    def rollback(self, subject: Subject, to: int, by: str, why: str) -> str:
        """Make what was recorded of a subject after `to` not count; the id of the rollback.

        Returns once the table shows it.
        """

        async def publish() -> str:
            name = await self._say(
                lambda author: actions.subject_rolled_back(author, subject, to, by, why)
            )
            await self._visit.shown(subject, name, there=True)
            return name

        return self._run(publish())

    def lift(self, rollback_id: str, by: str, why: str) -> Subject:
        """Take a rollback away; the subject it was of. Returns once the table shows it.

        Raises UnknownNameError.
        """
        subject = self.rollback_subject(rollback_id)

        async def publish() -> Subject:
            await self._say(
                lambda author: actions.rollback_lifted(author, subject, rollback_id, by, why)
            )
            await self._visit.shown(subject, rollback_id, there=False)
            return subject

        return self._run(publish())

    def exclude(
        self, trace_id: str, by: str, why: str, what: Literal["exclude", "include"] = "exclude"
    ) -> None:
        """Take a trace's contribution out, or put it back; the scores follow.

        Raises UnknownNameError where no fact is of this trace.
        """

        async def publish() -> None:
            self._visit.need("facts")
            if not await facts.knows_trace(self.settings, trace_id):
                raise UnknownNameError(f"no trace of the log is named {trace_id!r}")
            await self._say(lambda author: actions.trace_exclusion(author, what, trace_id, by, why))

        self._run(publish())

    # ---- dead letters --------------------------------------------------------------------------

    def dead_letters(
        self, reasons: Sequence[Reason] = (), *, replayed: bool = False, ids: Sequence[int] = ()
    ) -> list[StoredDeadLetter]:
        """The dead letters, oldest first; those replayed only on request or by id."""

        async def read() -> list[StoredDeadLetter]:
            self._visit.need("dead-letters")
            found = await read_letters(self.settings, reasons, replayed=replayed, ids=ids)
            return [one.stored() for one in found]

        return self._run(read())

    def replay(
        self, letter: StoredDeadLetter, repaired: bytes | None = None, stamp: Stamp | None = None
    ) -> Receipt:
        """Publish a dead letter again, to the topic it came from unless a role is given.

        Accepted means that the broker has it; correlation may still refuse it, as a letter of its
        own. What would be refused by itself is not sent. Raises ValueError for a repaired document
        that is no JSON object.
        """

        async def publish() -> Receipt:
            publisher = await self._visit.publisher(letter.stamp if stamp is None else stamp)
            return await replay(publisher, letter, repaired, stamp)

        return self._run(publish())
