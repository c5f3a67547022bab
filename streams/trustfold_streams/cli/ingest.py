"""`trustfold ingest`: events from files or standard input into the store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import click
from rich.progress import Progress, TaskID

from trustfold_projections.laws.medians import costs_of, medians_of_history
from trustfold_schemas.decoding import decode_event
from trustfold_schemas.documents import decimal_of, document
from trustfold_schemas.errors import EventRefused
from trustfold_schemas.events import CostMedian, CostMedianEvent, Event, type_of
from trustfold_schemas.instants import DAY, format_instant
from trustfold_schemas.receipts import Document, Receipt, Summary
from trustfold_schemas.subject import Subject
from trustfold_streams.cli.lines import Source, open_sources
from trustfold_streams.cli.options import Settings, json_option, store_option
from trustfold_streams.cli.output import print_json, progress, say
from trustfold_streams.embedded.quiet import collector_off
from trustfold_streams.store_port import BATCH

NAMED_MAX = 10
"""So many dead letters are named as they come; the rest are counted."""


@click.command(epilog="Example: trustfold ingest month.jsonl --medians-first --store trust.db")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--batch",
    type=click.IntRange(1, 100_000),
    default=BATCH,
    show_default=True,
    help="Documents a transaction: what is reported is durable.",
)
@click.option(
    "--medians-first",
    is_flag=True,
    help="First publish the medians of cost that the nightly job would have published over this "
    "input; needed for cost evidence when history is imported.",
)
@click.option("--strict", is_flag=True, help="Exit 1 if there were dead letters or conflicts.")
@store_option
@json_option
@click.pass_obj
def ingest(
    settings: Settings,
    files: tuple[str, ...],
    batch: int,
    medians_first: bool,
    strict: bool,
    as_json: bool,
) -> int:
    """Take events in: one JSON document a line; `-` is standard input.

    Every line is counted once: accepted, a duplicate, a conflict (the same id with other
    content), or a dead letter. A bad line becomes a dead letter and the rest goes on. Blank
    lines are no documents.

    On a broker, accepted is what it acknowledged: duplicates and conflicts are found by the
    pipeline, and conflicts show in `trustfold dead-letters`. What was interrupted can be ingested
    again from its start.
    """
    sources = open_sources(files, twice=medians_first)
    summary, medians = Summary(), None
    with (
        settings.open("create") as store,
        progress("ingest", "events") as bar,
        collector_off(),
    ):
        teller = _Teller(bar, sources, summary)
        try:
            if medians_first:
                medians = store.ingest(_medians(sources), settings.stamp, batch=batch)
            documents = (one for source in sources for one in teller.watch(source))
            store.ingest(documents, settings.stamp, batch=batch, committed=teller.committed)
        finally:
            teller.close()
            _print(summary, medians, as_json)
            for source in sources:
                source.close()
    return 1 if strict and summary.conflicts + summary.dead_letters else 0


class _Teller:
    """Tells a person how far the ingest is and which lines were refused."""

    def __init__(self, bar: Progress, sources: list[Source], summary: Summary) -> None:
        sizes = [source.size for source in sources]
        self.total = None if None in sizes else sum(size or 0 for size in sizes)
        self.summary = summary
        self.bar = bar
        self.task: TaskID = bar.add_task("ingest", total=self.total, done=0)
        self.bytes_read = 0
        self.refused = 0
        self.pending: list[str] = []

    def watch(self, source: Source) -> Iterator[Document]:
        for one in source.documents():
            self.bytes_read += len(one.body) + 1
            self.pending.append(one.origin)
            yield one

    def committed(self, receipts: list[Receipt]) -> None:
        self.summary.count(receipts)
        for origin, receipt in zip(self.pending, receipts, strict=False):
            if receipt.reason is not None:
                self.refused += 1
                if self.refused <= NAMED_MAX:
                    self._say(f"{origin}: {receipt.reason.value}: {receipt.detail}")
        del self.pending[: len(receipts)]
        self.bar.update(self.task, completed=self.bytes_read, done=f"{self.summary.total:,}")

    def close(self) -> None:
        if self.refused > NAMED_MAX:
            self._say(f"... and {self.refused - NAMED_MAX} more were refused")

    def _say(self, line: str) -> None:
        self.bar.stop()
        say(line, err=True)
        self.bar.start()


def _print(summary: Summary, medians: Summary | None, as_json: bool) -> None:
    if as_json:
        counts = {
            "accepted": summary.accepted,
            "duplicates": summary.duplicates,
            "conflicts": summary.conflicts,
            "dead_letters": summary.dead_letters,
        }
        print_json(counts if medians is None else {**counts, "medians": medians})
        return
    if medians is not None:
        say(f"medians of cost first: {_counts(medians)}")
    say(_counts(summary))


def _counts(summary: Summary) -> str:
    return (
        f"{summary.accepted:,} accepted, {summary.duplicates:,} duplicates, "
        f"{summary.conflicts:,} conflicts, {summary.dead_letters:,} dead letters"
    )


def _medians(sources: Iterable[Source]) -> Iterator[Document]:
    """The medians of the input as documents; their ids derive from what they say."""
    for data in medians_of_history(costs_of(_events(sources))):
        yield Document(median_document(data), "medians of the input")


def median_document(data: CostMedian) -> bytes:
    """A median as an event; the same median is the same event."""
    subject = Subject(data.scope, "median", data.effect)
    name = hashlib.sha256(subject.key).hexdigest()[:32]
    at = format_instant(data.effective_at)
    return document(
        type_of(CostMedianEvent),
        f"median/{name}/{at}/{data.median_usd}/{data.samples}",
        "trustfold",
        data.effective_at - DAY,
        {
            "scope": data.scope,
            "effect": data.effect,
            "median_usd": decimal_of(data.median_usd),
            "samples": data.samples,
            "effective_at": at,
        },
    )


def _events(sources: Iterable[Source]) -> Iterator[Event]:
    """What can be read of the input; the rest becomes dead letters when it is ingested."""
    for source in sources:
        for one in source.documents():
            try:
                yield decode_event(one.body)
            except EventRefused:
                continue
