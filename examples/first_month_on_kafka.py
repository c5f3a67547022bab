"""The first month on Kafka, without Docker: a broker, topics, a worker, and the same digests.

    make run-kafka          (or: python examples/first_month_on_kafka.py [FOLDER])

Starts a broker of its own on a free port with its data in FOLDER (default: .run/kafka; what it
holds is removed first), lets one worker fold first_month.jsonl, prints the leaderboard, and
compares the content digest of every subject with those of the embedded store on the same events.
Exit 1 if any differs. Whatever fails, what it started is ended; the logs of worker and broker stay.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from compose.kafka.broker import Broker, BrokerError, free_port  # noqa: E402 - the line above finds it
from trustfold_schemas.instants import parse_instant  # noqa: E402
from trustfold_streams.clock import SystemClock  # noqa: E402

EVENTS = "examples/first_month.jsonl"
KEPT = ROOT / ".run" / "kafka"
TRUSTFOLD = Path(sys.executable).with_name("trustfold")
AT = ("--at", "2026-02-01T00:00:00Z")
PARTITIONS = "4"

COMMAND_SECONDS_MAX = 120.0
COMPLETE_SECONDS_MAX = 120.0
LEAVE_SECONDS_MAX = 30.0
LOOK_SECONDS = 1.0


class Failed(Exception):
    """A step did not do what it must; the text says which."""


def main(arguments: Sequence[str]) -> int:
    """Run it all; 0 if both stores hold the same."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(arguments[0]).resolve() if arguments else KEPT
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        with broker(folder / "broker") as bootstrap:
            return same_as_embedded(bootstrap, folder)
    except (BrokerError, Failed, subprocess.TimeoutExpired) as error:
        say(f"run-kafka: {error}")
        return 1


def same_as_embedded(bootstrap: str, folder: Path) -> int:
    """Fold the events in both stores and compare."""
    store = ("--store", f"kafka://{bootstrap}")
    trustfold("topics", "create", *store, shown=False)
    with worker(store, folder / "worker.log"):
        trustfold("ingest", EVENTS, *store, "--medians-first")
        wait_until_complete(store)
        trustfold("scores", *store, *AT)
        on_kafka = digests(store)
    embedded = ("--store", str(folder / "embedded.db"))
    trustfold("ingest", EVENTS, *embedded, "--medians-first", shown=False)
    expected = digests(embedded)
    different = sorted(
        subject
        for subject in on_kafka.keys() | expected.keys()
        if on_kafka.get(subject) != expected.get(subject)
    )
    for subject in different:
        say(f"{subject}: Kafka {on_kafka.get(subject)}, embedded {expected.get(subject)}")
    if different or not expected:
        say(f"{len(different)} of {len(expected)} subjects differ")
        return 1
    say(f"{len(expected)} subjects, each with the content digest of the embedded store")
    return 0


@contextlib.contextmanager
def broker(data: Path) -> Generator[str]:
    """A broker of our own, ended afterwards; its address."""
    made = Broker(data, free_port())
    made.start()
    say(f"broker up on {made.bootstrap}")
    try:
        yield made.bootstrap
    finally:
        made.stop()
        say("broker down")


@contextlib.contextmanager
def worker(store: Sequence[str], log_file: Path) -> Generator[None]:
    """A worker in the background, told to leave afterwards."""
    with log_file.open("wb") as log:
        command = [str(TRUSTFOLD), "worker", *store, "--history", "--metrics-port", "0"]
        process = subprocess.Popen(  # noqa: S603 - our own command
            command, env=environment(), stdout=log, stderr=log
        )
        try:
            yield
            if process.poll() is not None:
                raise Failed(f"the worker ended with {process.returncode}: see {log_file}")
        finally:
            process.terminate()
            try:
                process.wait(LEAVE_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(LEAVE_SECONDS_MAX)
            say("worker gone")


def wait_until_complete(store: Sequence[str]) -> None:
    """Wait until the table holds everything that was published before this call."""
    now = SystemClock().now()
    until = time.monotonic() + COMPLETE_SECONDS_MAX
    while True:
        [status] = lines("status", *store, "--json")
        complete = status["complete_as_of"]
        if complete is not None and parse_instant(complete) >= now:
            return
        if time.monotonic() > until:
            raise Failed(f"not complete after {COMPLETE_SECONDS_MAX:.0f} s: {status}")
        time.sleep(LOOK_SECONDS)


def digests(store: Sequence[str]) -> dict[str, str]:
    """The content digest of every subject."""
    return {json.dumps(one["subject"]): one["digest"] for one in lines("scores", *store, "--json")}


def say(line: str) -> None:
    """Tell a person, before whatever a command of theirs tells next."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def lines(*arguments: str) -> list[dict[str, Any]]:
    """What a command prints as JSON, a line each."""
    done = run(*arguments, output=subprocess.PIPE)
    return [json.loads(line) for line in done.splitlines()]


def trustfold(*arguments: str, shown: bool = True) -> None:
    """Run a command for a person to see."""
    if shown:
        say(f"$ trustfold {' '.join(arguments)}")
    run(*arguments, output=None if shown else subprocess.DEVNULL)


def run(*arguments: str, output: int | None) -> bytes:
    """Run a command; what it printed, if that was asked for."""
    done = subprocess.run(  # noqa: S603 - our own command
        [str(TRUSTFOLD), *arguments],
        cwd=ROOT,
        env=environment(),
        stdout=output,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"`trustfold {' '.join(arguments)}` ended with {done.returncode}")
    return done.stdout or b""


def environment() -> dict[str, str]:
    """Ours, without anybody's settings of another broker."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRUSTFOLD_")}
    return {**kept, "TRUSTFOLD_TOPIC_PARTITIONS": PARTITIONS}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
