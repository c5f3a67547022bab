"""The weights of a pipeline, read by who asks: the same as those of a file with the same events."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.broker.command_pipelines import Pipeline, configure
from tests.broker.command_process import command
from tests.broker.pipeline import create, plain_producer, publish, settings_for, story
from tests.broker.processes import until
from tests.broker.running import Running
from tests.cli.commands import Shell
from tests.embedded.documents import event, numbered
from trustfold_streams.clock import SystemClock
from trustfold_streams.embedded import EmbeddedStore
from trustfold_streams.embedded.synapse import EmbeddedSynapse
from trustfold_streams.kafka.errors import UnsafeTopicsError
from trustfold_streams.kafka.settings import KafkaSettings
from trustfold_streams.kafka.synapse import KafkaSynapse

pytestmark = pytest.mark.broker

PLAYS = 60
DONE_SECONDS_MAX = 60.0


@pytest.fixture
def settings(broker: Running, prefix: str) -> KafkaSettings:
    """Settings for topics that nobody else uses."""
    return settings_for(broker.bootstrap, prefix)


def plays() -> list[bytes]:
    """Self-plays of four contexts and two scopes."""
    now = SystemClock().now()
    return [
        event(
            "selfplay.completed",
            f"play/{n}",
            {
                "context": f"context {n % 4}",
                "scope": "s" if n % 3 else "",
                "winner": f"neuron {n * n % 5}",
                "loser": f"neuron {(n * n + 1) % 5}",
                "critic": "judge",
                "verdict": "why",
                "critic_cost_usd": 0.001,
            },
            now - n,
        )
        for n in range(PLAYS)
    ]


@story
async def test_both_stores_have_the_same_weights(settings: KafkaSettings, tmp_path: Path) -> None:
    """The topic that the agent wrote, the replay of a file, and the command: one answer."""
    await create(settings)
    synapse = KafkaSynapse(settings)
    assert await synapse.read() == {}
    told = plays()

    async def counted() -> str | None:
        found = sum(state.plays for state in (await synapse.read()).values())
        return None if found == PLAYS else f"{found} of {PLAYS} self-plays"

    with command(settings, tmp_path / "one") as worker:
        await worker.healthy()
        for document in told:  # each context in its own order, as a file has them
            await publish(settings, [document])
        await until("all self-plays are counted", counted, DONE_SECONDS_MAX)
    path = tmp_path / "trust.db"
    with EmbeddedStore.open(path) as store:
        store.ingest(numbered(told))
    with EmbeddedSynapse(path) as replayed:
        assert {context: one.weights for context, one in (await synapse.read()).items()} == {
            context: one.weights for context, one in replayed.read().items()
        }
        for scope in ("", "s"):
            assert await synapse.neighbors("context 1", scope) == await replayed.neighbors(
                "context 1", scope
            )
            assert await synapse.get_for_neuron("neuron 1", scope) == (
                await replayed.get_for_neuron("neuron 1", scope)
            )


def test_the_command_reads_the_topic(
    settings: KafkaSettings, shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`trustfold synapse --store kafka://...` prints the last record of each context.

    `self-play plan` goes by the same weights.
    """
    pipeline = Pipeline(settings)
    configure(monkeypatch, pipeline)
    records = [
        b'{"context":"c","weights":{"":{"a":550,"b":475}},"plays":1,"recorded":"t"}',
        b'{"context":"c","weights":{"":{"a":600,"b":450}},"plays":2,"recorded":"t"}',
    ]
    asyncio.run(_write(settings, records))
    made = shell("synapse", "c", "--json", "--store", pipeline.store).json
    assert [(one["neuron"], one["weight"]) for one in made] == [("a", 600), ("b", 450)]
    questions = tmp_path / "questions.jsonl"
    questions.write_text(
        '{"context": "c", "critic": "judge", "critic_cost_usd": 0.01, "budget_usd": 1,'
        ' "candidates": [{"neuron": "a"}, {"neuron": "b"}, {"neuron": "new"}]}\n'
    )
    (planned,) = shell(
        "self-play", "plan", str(questions), "--json", "--store", pipeline.store
    ).json
    assert planned["weights"] == {"a": 600, "b": 450, "new": 500}
    assert planned["use"] == "a"


@story
async def test_a_strange_record_is_said_and_not_skipped(settings: KafkaSettings) -> None:
    """Weights with a gap would be wrong weights."""
    await _write(settings, [b"no record of ours"])
    with pytest.raises(UnsafeTopicsError, match="is no record of a context"):
        await KafkaSynapse(settings).read()


async def _write(settings: KafkaSettings, records: list[bytes]) -> None:
    await create(settings)
    async with plain_producer(settings) as producer:
        for value in records:
            await producer.send_and_wait(settings.topic("synapse"), value, b"c", partition=0)
