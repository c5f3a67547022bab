"""Effects by the registry: what the policy declares of the classes that a neuron touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from trustfold_projections.laws.policy import Policy
from trustfold_schemas.events import Reversibility


def declared(policy: Policy, effects: Iterable[str]) -> dict[str, Reversibility | None]:
    """Effect -> its declared reversibility, None where no declaration matches."""
    made: dict[str, Reversibility | None] = {}
    for effect in effects:
        declaration = policy.ruling(effect).declaration
        made[effect] = None if declaration is None else declaration.reversibility
    return made


class DeclaredEffects:
    """The port `Effects` over a policy; `effects_of` names the classes that a neuron touches."""

    def __init__(
        self, policy: Callable[[], Policy], effects_of: Callable[[str], Iterable[str]]
    ) -> None:
        self._policy = policy
        self._effects_of = effects_of

    async def touched(self, neuron: str) -> Mapping[str, Reversibility | None]:
        """The effect classes that a neuron touches, as they are declared now."""
        return declared(self._policy(), self._effects_of(neuron))
