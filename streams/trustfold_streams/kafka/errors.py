"""What can go wrong between us and a broker, by whose fault it is.

TrustfoldError
|-- CallerError
|   |-- KafkaSettingsError      a setting is missing, wrong or contradicts another; names its key
|   |-- ReaderRoleError         who speaks as a reader publishes nothing
|   `-- StreamsExtraError       the extra `streams` is not installed
|-- LogError                    the log's fault: whoever works on it stops
|   |-- UnsafeTopicsError       topics whose settings would break a promise
|   |-- HangingTransactionError a transaction on a partition of ours never ended
|   `-- LostInputError          records that were never read are gone, or come again
|-- StaleTableError             the table is not known to be complete; nothing may rest on it
`-- BrokerError                 the broker or the way to it; what was not acknowledged is not done
    |-- BrokerUnreachableError  nobody answers there, or refuses who we are
    |-- BrokerRefusedError      it answered with an error that trying again does not mend
    `-- BrokerSlowError         it did not finish within the bounded wait
"""

from __future__ import annotations

from trustfold_schemas.errors import CallerError, LogError, TrustfoldError


class KafkaSettingsError(CallerError):
    """A setting that cannot be used; the text names where it stands and its key."""


class ReaderRoleError(CallerError):
    """The role `reader` publishes nothing."""


class StreamsExtraError(CallerError):
    """The libraries that speak with Kafka are not installed."""


class UnsafeTopicsError(LogError):
    """Topics are missing, or have settings under which a promise would be broken."""


class HangingTransactionError(LogError):
    """A partition's last stable offset stays below its end, though its only writer was fenced."""

    def __init__(self, topic: str, partition: int, stable: int, end: int) -> None:
        super().__init__(
            f"{topic}/{partition}: a transaction hangs: readable up to offset {stable}, the end is "
            f"{end}, and nobody may still be writing. Find it with `kafka-transactions.sh "
            f"find-hanging --topic {topic} --partition {partition}` and end it with "
            f"`kafka-transactions.sh abort --topic {topic} --partition {partition} "
            "--start-offset ...`; then start again. Nothing was skipped"
        )
        self.topic = topic
        self.partition = partition


MEND = "What was derived cannot be completed from this log: replay into a new topic prefix"


class LostInputError(LogError):
    """The log does not go on where this reader stopped."""

    def __init__(self, topic: str, partition: int, wanted: int, got: int, mend: str = MEND) -> None:
        what = (
            f"offsets {wanted} to {got - 1} are gone before they were read; the topic's retention "
            "or an operator removed them"
            if got > wanted
            else f"it went back to offset {got}"
        )
        super().__init__(f"{topic}/{partition}: expected offset {wanted}: {what}. {mend}")
        self.topic = topic
        self.partition = partition


class StaleTableError(TrustfoldError):
    """The table of scores is not known to be complete as of now."""


class BrokerError(TrustfoldError):
    """Base of what befalls a broker; never raised itself."""


class BrokerUnreachableError(BrokerError):
    """No broker answers, or the one that does refuses who we are."""


class BrokerRefusedError(BrokerError):
    """The broker answered with an error."""


class BrokerSlowError(BrokerError):
    """The broker did not finish within the bounded wait."""
