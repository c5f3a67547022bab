"""`trustfold verify`: the proofs, and every difference by name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from trustfold_schemas.findings import Finding
from trustfold_schemas.instants import format_instant
from trustfold_streams.archiver.extra import require_extra as require_duckdb
from trustfold_streams.cli.options import Settings, json_option, shown, store_option
from trustfold_streams.cli.output import console, plain, print_json, progress, say
from trustfold_streams.embedded.database import Mode
from trustfold_streams.embedded.verify import Report
from trustfold_streams.kafka.extra import require_extra as require_streams

if TYPE_CHECKING:
    from trustfold_projections.analysis.verify import Report as ArchiveReport


def _head(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise click.BadParameter("expected 64 hexadecimal digits, as `trustfold verify` prints")
    return value


@click.command()
@click.option(
    "--anchor",
    metavar="HEAD",
    callback=_head,
    help="A head that was kept elsewhere; it must be one that this log, or its decisions, had.",
)
@click.option(
    "--repair",
    is_flag=True,
    help="First refold wrong scores from the ledger and trace summaries from the facts; facts "
    "and ledger are never touched.",
)
@store_option
@json_option
@click.pass_obj
def verify(settings: Settings, anchor: str | None, repair: bool, as_json: bool) -> int:
    """Prove the store: facts unbroken, ledger derived from them, table folded from the ledger.

    Of an archive: its chain and every file in it, ledger and sums as the archived facts give them.
    Of a pipeline: the same of an archive that is made for the moment, and the table against it.
    Exit 1 if there are differences; each is named.
    """
    if settings.on_archive:
        if repair:
            raise click.UsageError("an archive is never repaired: make another of the same log")
        return _verify_archive(settings, anchor, as_json)
    if settings.on_kafka:
        if repair or anchor is not None:
            raise click.UsageError(
                "--repair and --anchor are for a store in a file; a pipeline's workers refold what "
                "is wrong, and the head of an archive of it is its anchor"
            )
        return _verify_pipeline(settings, as_json)
    mode: Mode = "write" if repair else "read"
    with settings.open_file(mode) as store, progress("verify", "facts") as bar:
        repaired = store.repair() if repair else None
        task = bar.add_task("verify", total=store.status().facts, done=0)
        report = store.verify(
            anchor, lambda n: bar.update(task, completed=n, done=f"{n:,}") if n % 997 == 0 else None
        )
    if as_json:
        made = {"ok": report.ok, **msgspec.to_builtins(report)}
        if repaired is not None:
            made["repaired"] = {"scores": repaired[0], "traces": repaired[1]}
        print_json(made)
    else:
        if repaired is not None:
            for subject in repaired[0]:
                say(f"refolded the score of {shown(subject)}")
            scores, others = len(repaired[0]), repaired[1]
            say(f"repaired: {scores:,} scores, {others:,} trace summaries and thresholds")
        _print(report)
    return 0 if report.ok else 1


def _verify_archive(settings: Settings, anchor: str | None, as_json: bool) -> int:
    folder = settings.archive_folder
    from trustfold_streams.archiver.store import verify_archive

    with _telling() as advance:
        report = verify_archive(folder, anchor, advance)
    return _print_archived(report, as_json, "archive")


def _verify_pipeline(settings: Settings, as_json: bool) -> int:
    broker = settings.kafka_settings
    require_streams()
    require_duckdb()
    from trustfold_streams.archiver.verify_kafka import verify_pipeline

    with _telling() as advance:
        report = verify_pipeline(broker, settings.stamp, advance)
    return _print_archived(report, as_json, "log")


@contextlib.contextmanager
def _telling() -> Generator[Callable[[int], None]]:
    """A progress bar that is told of every fact and shows some."""
    with progress("verify", "facts") as bar:
        task = bar.add_task("verify", total=None, done=0)

        def advance(number: int) -> None:
            if number % 997 == 0:
                bar.update(task, completed=number, done=f"{number:,}")

        yield advance


def _print_archived(report: ArchiveReport, as_json: bool, what: str) -> int:
    if as_json:
        print_json({"ok": report.ok, **msgspec.to_builtins(report)})
        return 0 if report.ok else 1
    claims = (
        ("archive", f"{report.segments:,} segments", "chained, and every byte as its line says"),
        ("ledger", f"{report.entries:,} entries", f"derived again from {report.facts:,} facts"),
        ("table", f"{report.subjects:,} subjects", "the sums are the fold of the entries"),
    )
    _print_proofs(claims, report.findings, report.findings_unnamed)
    out = console()
    if report.anchor and report.ok:
        out.print(f"the anchor is a head of this {what}")
    out.print(f"settled {format_instant(report.settled)}")
    if what == "archive":
        out.print(f"head {report.head}")
    return 0 if report.ok else 1


def _print(report: Report) -> None:
    claims = (
        ("file", "", "SQLite finds its pages sound"),
        ("facts", f"{report.facts:,} facts", "unbroken chain, bodies readable"),
        ("ledger", f"{report.entries:,} entries", "each derived again from the facts"),
        ("traces", f"{report.traces:,} traces", "each summary as the facts give it"),
        ("table", f"{report.subjects:,} scores", "each equals the fold of its entries"),
        ("thresholds", f"{report.thresholds:,} thresholds", "as the facts of policy set them"),
        (
            "decisions",
            f"{report.decisions:,} decisions",
            "unbroken chain, each made again",
        ),
        ("dead letters", f"{report.dead_letters:,} dead letters", "bytes as they came"),
    )
    _print_proofs(claims, report.findings, report.findings_unnamed)
    out = console()
    if report.anchor and report.ok:
        out.print("the anchor is a head of this log")
    out.print(f"head {report.head}")
    if report.decisions:
        out.print(f"head of the decisions {report.decisions_head}")


def _print_proofs(
    claims: Sequence[tuple[str, str, str]],
    findings: Sequence[Finding],
    unnamed: int,
) -> None:
    out = console()
    for proof, counted, claim in claims:
        found = sum(finding.proof == proof for finding in findings)
        verdict = f"{found} differences" if found else "ok"
        out.print(f"{proof:<13}{verdict:<16}{counted:<20}{claim}", markup=False)
    for finding in findings:
        out.print(plain(f"difference in {finding.proof}: {finding.where}: {finding.difference}"))
    if unnamed:
        out.print(f"... and {unnamed:,} more differences")
