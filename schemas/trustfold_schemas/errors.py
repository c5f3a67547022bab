"""The error tree of trustfold's data: whose fault a refusal is, and what would mend it.

    TrustfoldError                     never raised itself
    |-- CallerError                    the caller's fault: mend the call and try again
    |   |-- ActionError                a question about something that is no action
    |   |-- EventRefused               an event document that cannot become a fact
    |   |-- NotSettledError            the log has not settled at the moment asked for
    |   |-- NotPermittedError          the role that this was opened in may not ask for it
    |   |-- SubjectError               a subject outside its limits
    |   |-- ThresholdNotFoundError     no declaration matches an effect (the seed's name)
    |   `-- UnknownNameError           nothing in the log has the name that was given
    `-- LogError                       the log's or the table's fault: stop and look
        |-- LostPolicyError            a decision rests on a policy that its log does not reach
        `-- TrustCorruptionError       a stored record that contradicts itself (the seed's name)

Stores add their own children in their own `errors` modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trustfold_schemas.dead_letters import Reason


class TrustfoldError(Exception):
    """Base of every error that trustfold raises on purpose."""


class CallerError(TrustfoldError):
    """What the caller gave cannot be used; nothing was changed."""


class LogError(TrustfoldError):
    """What is stored contradicts itself or cannot be read; nothing was changed."""


class SubjectError(CallerError, ValueError):
    """A subject with an empty or over-long part."""


class ActionError(CallerError, ValueError):
    """What the policy was asked about is no action; the text names the field."""


class NotSettledError(CallerError):
    """The log has not settled at the moment asked for: later facts could still change it."""


class NotPermittedError(CallerError):
    """The role, or the scopes, that a store was opened with may not ask for this."""


class ThresholdNotFoundError(CallerError):
    """No declaration matches an effect, so no threshold is its own: never promote."""


class UnknownNameError(CallerError):
    """Nothing in the log has this name."""


class EventRefused(CallerError, ValueError):
    """An event that cannot become a fact.

    `reason` is the code of its dead letter; the text names the field, what it got and what it
    wanted.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class LostPolicyError(LogError):
    """A decision rests on more facts of the log `policy` than are there: it was cut."""


class TrustCorruptionError(LogError):
    """A stored score whose checksum, digest or ranges are wrong: no trust may rest on it."""
