"""The declarations that ship with the product, as events of the topic `policy`."""

from __future__ import annotations

from collections.abc import Iterator

from trustfold_schemas.documents import document
from trustfold_schemas.events import type_of
from trustfold_schemas.policy_events import EffectDeclared, EffectDeclaredEvent
from trustfold_streams.importers.table_rows import classes

SOURCE = "trustfold"


def shipped_declarations(by: str) -> Iterator[EffectDeclared]:
    """What `tables/classes.toml` declares, in its order; classes of unknown reversibility not."""
    table = classes()
    for row in (*table.shell, *table.effect):
        if row.reversibility != "unknown":
            yield EffectDeclared(row.effect, row.reversibility, by, row.why)


def declared_events(by: str, time: int, load_id: str) -> Iterator[bytes]:
    """The shipped declarations as documents of `effect.declared`, said at `time` by `by`.

    Their ids are `load_id` and the glob, so that the same load again is a duplicate.
    """
    for one in shipped_declarations(by):
        data = {
            "effect": one.effect,
            "reversibility": one.reversibility,
            "by": one.by,
            "why": one.why,
        }
        yield document(type_of(EffectDeclaredEvent), f"{load_id}/{one.effect}", SOURCE, time, data)
