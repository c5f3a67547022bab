"""The embedded store: facts, ledger, scores and dead letters in one SQLite file (SPEC 10)."""

from trustfold_schemas.receipts import Document, Receipt, Summary
from trustfold_streams.embedded.store import EmbeddedStore

__all__ = ["Document", "EmbeddedStore", "Receipt", "Summary"]
