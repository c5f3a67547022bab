"""`trustfold medians`: the nightly medians of cost, computed in DuckDB and published as events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import click
from msgspec.structs import replace

from trustfold_projections.laws.medians import LEAD
from trustfold_schemas.amounts import PPM
from trustfold_schemas.documents import decimal_of
from trustfold_schemas.events import CostMedian
from trustfold_schemas.facts import Fact, Stamp
from trustfold_schemas.instants import DAY
from trustfold_schemas.receipts import Document, Summary
from trustfold_streams.archiver.extra import require_extra
from trustfold_streams.cli.fact_sources import open_facts
from trustfold_streams.cli.ingest import median_document
from trustfold_streams.cli.options import (
    ARCHIVE,
    Moment,
    Settings,
    json_option,
    moment_text,
    store_option,
)
from trustfold_streams.cli.output import console, plain, print_json, say, short_moment, table
from trustfold_streams.clock import SystemClock
from trustfold_streams.store_port import Store

SHOWN_MAX = 25


@click.command()
@click.option(
    "--effective-at",
    type=Moment(),
    metavar="DAY",
    help="The midnight UTC at which they take effect (default: the next one).",
)
@click.option("--dry-run", is_flag=True, help="Compute and print them; publish nothing.")
@click.option(
    "--to",
    "target",
    metavar="STORE",
    help="Publish into this store (default: the one that is read; needed with archive:DIR).",
)
@store_option
@json_option
@click.pass_obj
def medians(
    settings: Settings, effective_at: int | None, dry_run: bool, target: str | None, as_json: bool
) -> int:
    """Publish the medians of cost that the next traces are measured by.

    For each scope and effect, over the traces of the 30 days that end a day before they take
    effect, where at least 20 have a known cost. Those that have not changed since they were last
    published are left out, so a second run in the same night publishes nothing.
    """
    require_extra()
    from trustfold_projections.analysis.medians import next_midnight

    midnight = effective_at if effective_at is not None else next_midnight(SystemClock().now())
    if midnight % DAY:
        raise click.UsageError(
            f"--effective-at {moment_text(midnight)}: medians take effect at a midnight UTC"
        )
    if settings.on_archive and not (dry_run or target):
        raise click.UsageError(
            "an archive is only read: --to STORE publishes into the store that it is of, and "
            "--dry-run into none"
        )
    made = compute(settings, midnight)
    summary = None
    if not dry_run:
        into = settings if target is None else replace(settings, store=target)
        with into.open("write") as store:
            summary = publish(store, made, settings.stamp)
    if as_json:
        for median in made:
            print_json(_json(median))
    else:
        _print(made, midnight, summary)
    return 1 if summary is not None and summary.dead_letters + summary.conflicts else 0


def compute(settings: Settings, midnight: int) -> list[CostMedian]:
    """The medians of a log that are to be published for a midnight."""
    from trustfold_projections.analysis import medians as analysis
    from trustfold_projections.archive.duck import in_memory

    with contextlib.closing(in_memory()) as connection:
        if settings.on_archive:
            with settings.open_archive() as store:
                costs = analysis.archived_costs(connection, store.archive, midnight)
                found = analysis.medians_of_costs(connection, costs, midnight)
        else:
            with open_facts(settings) as facts:
                events = (fact.event for some in facts.by_key() for fact in some)
                found = analysis.medians_of_costs(
                    connection, analysis.logged_costs(events), midnight
                )
    with open_facts(settings) as facts:
        published: Iterable[Fact] = list(facts.medians())
    return analysis.changed(found, published, midnight)


def publish(store: Store, made: Sequence[CostMedian], stamp: Stamp | None = None) -> Summary:
    """Publish medians; the same ones again are duplicates."""
    documents = [Document(median_document(data), "nightly medians") for data in made]
    return store.ingest(documents, stamp)


class NightlyMedians:
    """A timer for a process that looks at its clock now and then, as the archiver does.

    `read` is the log to compute over, `write` the store to publish into; on a broker the first is
    the archive that the process keeps.
    """

    def __init__(self, read: Settings, write: Settings) -> None:
        self.read, self.write = read, write
        self._done: int | None = None

    @classmethod
    def of_archiver(cls, log: Settings, folder: Path) -> Self:
        """The timer of whoever archives a log into a folder."""
        return cls(replace(log, store=f"{ARCHIVE}{folder}") if log.on_kafka else log, log)

    def tick(self, now: int, settled: int | None = None) -> Summary | None:
        """Publish the medians of the next midnight if they are due and were not yet published.

        `settled` is how far an archive that is read has settled: before the end of the medians'
        window they wait, since traces of it may be missing. What was published before, by another
        process too, is found in the log.
        """
        from trustfold_projections.analysis.medians import due

        midnight = due(now, self._done)
        if midnight is None:
            return None
        if self.read.on_archive and settled is not None and settled < midnight - LEAD:
            return None
        made = compute(self.read, midnight)
        with self.write.open("write") as store:
            summary = publish(store, made, self.write.stamp)
        self._done = midnight
        return summary


def _json(median: CostMedian) -> dict[str, Any]:
    return {
        "scope": median.scope,
        "effect": median.effect,
        "median_usd": decimal_of(median.median_usd),
        "samples": median.samples,
        "effective_at": moment_text(median.effective_at),
    }


def _print(made: Sequence[CostMedian], midnight: int, summary: Summary | None) -> None:
    out = console()
    if made:
        scoped = any(median.scope for median in made)
        rows = table(
            f"medians of cost from {short_moment(midnight)}",
            *(["scope"] if scoped else []),
            "effect",
            "median USD",
            "traces",
            numbers=("median USD", "traces"),
        )
        for median in made[:SHOWN_MAX]:
            rows.add_row(
                *([plain(median.scope)] if scoped else []),
                plain(median.effect),
                f"{median.median_usd / PPM:,.6f}",
                f"{median.samples:,}",
            )
        out.print(rows)
        if len(made) > SHOWN_MAX:
            out.print(f"... and {len(made) - SHOWN_MAX:,} more (--json prints all)")
    if summary is None:
        say(f"{len(made):,} medians changed; nothing was published")
    else:
        say(f"{summary.accepted:,} medians published, {summary.duplicates:,} were already")
