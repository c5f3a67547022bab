"""What can go wrong with a store's file, by whose fault it is.

TrustfoldError
|-- CallerError
|   `-- NoStoreError          there is no file where one was expected
`-- StoreError                the file, its disk or its owner; nothing of the call was kept
    |-- StoreBusyError        another writer held it for longer than the wait
    |-- StoreFullError        no room on the disk or in the file
    |-- StoreReadOnlyError    the file may not be written
    |-- NotAStoreError        the file is something else
    |-- NewerStoreError       the file was written by a newer version
    `-- StoreDamagedError     SQLite cannot read it any more
"""

from __future__ import annotations

from trustfold_schemas.errors import CallerError, TrustfoldError


class NoStoreError(CallerError):
    """There is no store at this path, and the call does not make one."""


class StoreError(TrustfoldError):
    """Base of what befalls a store; never raised itself."""


class StoreBusyError(StoreError):
    """Another writer held the store for longer than the bounded wait."""


class StoreFullError(StoreError):
    """No room is left for the store."""


class StoreReadOnlyError(StoreError):
    """The store may not be written by this process."""


class NotAStoreError(StoreError):
    """The file is no trustfold store."""


class NewerStoreError(StoreError):
    """The file has a schema that this version does not know."""


class StoreDamagedError(StoreError):
    """SQLite finds the file damaged."""
