"""Everything about access that outlives the server, in one file that only its owner can read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from agenttrace.config import Settings, ensure_home
from agenttrace.serve.access.audit import AuditLog, AuditWriter
from agenttrace.serve.access.database import AccessDatabase, now_micros
from agenttrace.serve.access.failed_logins import FailedLogins
from agenttrace.serve.access.keys import Keys
from agenttrace.serve.access.link import StartToken
from agenttrace.serve.access.logins import ApiTokens, Logins
from agenttrace.serve.access.machines import Machines
from agenttrace.serve.access.refusals import Refusals
from agenttrace.serve.access.saved_views import SavedViews
from agenttrace.serve.access.users import Users


class AccessStore:
    """Users, logins, API tokens, failed logins, saved views and the audit log; and this process's link and refusals.

    Safe to use from any thread. Reads take microseconds and may happen in the server's loop; writes wait for the disk
    and belong in a thread.
    """

    def __init__(self, path: Path, *, now: Callable[[], int] = now_micros) -> None:
        self._database = AccessDatabase(path)
        self.users = Users(self._database, now)
        self.logins = Logins(self._database, now)
        self.failed_logins = FailedLogins(self._database, now)
        self.tokens = ApiTokens(self._database, now)
        self.machines = Machines(self._database, now)
        self.audit = AuditLog(self._database, now)
        self.audit_writer = AuditWriter(self.audit)
        self.refusals = Refusals(self.audit)
        self.views = SavedViews(self._database, now)
        self.keys = Keys(self._database, now)
        self.start_token = StartToken()

    def close(self) -> None:
        """Write pending refusals and close the file."""
        self.refusals.close()
        self._database.close()

    def __enter__(self) -> AccessStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_access(settings: Settings) -> AccessStore:
    """The access store of a data directory, created where there is none yet."""
    return AccessStore(ensure_home(settings) / "access.db")
