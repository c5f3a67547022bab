"""What can go wrong with an archive, by whose fault it is.

TrustfoldError
|-- CallerError
|   |-- NoArchiveError         there is no archive where one was expected
|   `-- OtherLogError          the archive is of another log than the one to be archived
|-- LogError
|   `-- ArchiveDamagedError    a line, a file or a row is not what the chain says
|-- ArchiveBusyError           another archiver holds it
`-- ArchiveDiskError           the disk refuses: full, read-only, not ours
"""

from __future__ import annotations

from trustfold_schemas.errors import CallerError, LogError, TrustfoldError


class NoArchiveError(CallerError):
    """There is no archive in this folder."""


class OtherLogError(CallerError):
    """The archive holds another log, or one that has gone further than this one."""


class ArchiveDamagedError(LogError):
    """The archive contradicts itself: nothing may rest on it until `verify` finds nothing."""


class ArchiveBusyError(TrustfoldError):
    """Another archiver is at work in this folder."""


class ArchiveDiskError(TrustfoldError):
    """The folder cannot be written or read; what was archived before is kept."""
