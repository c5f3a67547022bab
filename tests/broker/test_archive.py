"""The archiver on a broker: the same files, the same integers, gaps and all."""

from __future__ import annotations

import asyncio
import functools
import json
import random
from pathlib import Path

import pytest

from tests.broker.command_pipelines import Pipeline, Run, said, signal
from tests.broker.pipeline import settings_for
from tests.broker.processes import WorkerProcess
from tests.broker.running import Running
from tests.broker.test_fire import campaign
from tests.cli.commands import Ended, Shell
from trustfold_projections.archive import manifest as manifests
from trustfold_projections.archive.reading import read_segment
from trustfold_projections.archive.writer import Limits
from trustfold_schemas.instants import HOUR, format_instant, parse_instant
from trustfold_schemas.scores import State
from trustfold_schemas.subject import Subject
from trustfold_streams.archiver.from_kafka import kafka_log
from trustfold_streams.archiver.run import open_archiver
from trustfold_streams.archiver.store import ArchiveStore, verify_archive
from trustfold_streams.cli import archive as command
from trustfold_streams.clock import ManualClock
from trustfold_streams.kafka.command_store import KafkaStore

pytestmark = pytest.mark.broker

SUBJECT = Subject("", "archived", "invoke")
MIDNIGHT = parse_instant("2026-02-03T00:00:00Z")
NIGHT = MIDNIGHT - 21 * HOUR
"""Three in the morning, a month after the example began."""


def digests(ended: Ended) -> dict[tuple[str, ...], str]:
    """The content digests that `scores --json` printed, by subject."""
    assert ended.code == 0, ended
    return {tuple(one["subject"]): one["digest"] for one in ended.json}


def test_a_pipeline_is_archived_pass_by_pass(
    pipeline: Pipeline, run: Run, embedded: Run, shell: Shell, tmp_path: Path
) -> None:
    """Scores as of a moment are those of the broker and the file; the second pass goes on."""
    folder, name = tmp_path / "archive", f"archive:{tmp_path / 'archive'}"
    moment = pipeline.settled_now()
    first = said(run("archive", str(folder), "--json"))
    assert first["settled"] >= moment
    found = digests(shell("scores", "--as-of", moment, "--json", "--store", name))
    assert found == digests(run("scores", "--as-of", moment, "--json"))
    assert digests(embedded("scores", "--json")).items() <= found.items()

    file = shell.file([signal(f"archived{n}", SUBJECT, n % 2) for n in range(40)])
    assert run("ingest", file).code == 0
    pipeline.caught_up()
    later = pipeline.settled_now()
    question = ("--trace", "t9", "--step", "a", "--reversibility", "reversible", "--json")
    decided = said(run("decide", *SUBJECT[1:], *question))
    second = said(run("archive", str(folder), "--json"))
    assert second["rows"] >= 80
    again = digests(shell("scores", "--as-of", moment, "--json", "--store", name))
    assert again == found
    ours = digests(shell("scores", "--as-of", later, "--json", "--store", name))
    assert ours == digests(run("scores", "--as-of", later, "--json"))
    assert tuple(SUBJECT) in ours

    (row,) = shell("sql", "--json", "FROM decisions", "--store", name).json
    assert row["decision_id"] == decided["decision_id"]

    proven = shell("verify", "--store", name, "--anchor", first["head"], "--json")
    report = json.loads(proven.out)
    assert (proven.code, report["findings"]) == (0, [])
    assert report["entries"] > 0
    lines = manifests.load(folder).lines
    # Where transactions end no record stands, and the declared ranges go over it.
    ledger = [line for line in lines if line.topic == "ledger"]
    records = [set(read_segment(folder, line).column("offset").to_pylist()) for line in ledger]
    assert sum(line.end - line.start for line in ledger) > sum(map(len, records)) > 0
    whole = said(run("verify", "--json"))
    assert (whole["ok"], whole["findings"]) == (True, [])
    assert whole["entries"] == report["entries"]
    third = said(run("archive", str(folder), "--json"))
    assert third["rows"] == 0
    assert len(manifests.load(folder).lines) <= len(lines) + 1


def test_the_archiver_publishes_the_nightly_medians(
    run: Run, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed over what it has archived, published to the topic, found there the next time."""
    folder = str(tmp_path / "archive")
    monkeypatch.setattr(command, "SystemClock", lambda: ManualClock(NIGHT))
    due = ("medians", "--effective-at", format_instant(MIDNIGHT), "--dry-run", "--json")
    assert run("archive", folder).code == 0
    wanted = shell(*due, "--store", f"archive:{folder}").json
    assert wanted
    for published in (len(wanted), 0):
        ended = run("archive", folder, "--medians")
        assert ended.code == 0, ended
        assert f"{published} medians published, 0 were already" in ended.out
    assert shell(*due, "--store", f"archive:{folder}").json == []


def test_after_a_fire(own_broker: Running, prefix: str, tmp_path: Path) -> None:
    """After workers were killed under load: DuckDB has the integers of the topics."""
    assert own_broker.process is not None
    folder = tmp_path / "archive"
    asyncio.run(
        campaign(
            own_broker.process,
            prefix,
            tmp_path,
            seed=7,
            kills=3,
            freezes=0,
            broker_deaths=0,
            traces=400,
        )
    )
    settings = settings_for(own_broker.bootstrap, prefix)
    worker = WorkerProcess(settings, tmp_path / "after.log")
    try:
        asyncio.run(worker.ready())
        Pipeline(settings).settled_now()
    finally:
        worker.end()
    with open_archiver(folder, limits=Limits(rows=500, merge=3)) as archiver:
        archiver.run(functools.partial(kafka_log, settings))
    report = verify_archive(folder)
    assert report.ok, report.findings
    with ArchiveStore.open(folder) as archive, KafkaStore.open(settings) as log:
        states = [state for state in archive.states() if isinstance(state, State)]
        busiest = max(states, key=lambda state: state.version).subject
        moments = sorted({entry.recorded for entry in archive.entries(busiest)})
        for moment in random.Random(7).sample(moments, 5):
            assert archive.states_as_of(moment) == log.states_as_of(moment)
