"""Which store is used: that of a team's server, or what commands, MCP and the library show of a data directory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from agenttrace.config.toml_files import write_private
from agenttrace.store import is_database, open_team_store, store_path
from agenttrace.store.current import StoreSource
from agenttrace.store.errors import STORE_FAILURES, StoreError
from agenttrace.store.session_state import StateLimits
from agenttrace.store.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from agenttrace.config import Settings
    from agenttrace.store.store import Store
    from agenttrace.store.writable import WritableStore

#: Where the last one is written down; a URL has a password in it.
_NAME = "team.store"
_DEFAULT = "team.db"
#: The bookkeeping of rules, where the store is a database.
_RULES = "team-rules.db"
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class WrongAddressError(StoreError):
    """The store of a team cannot be at this address."""

    misused = True

    def __init__(self, scheme: str) -> None:
        self.problem = f"a team's store is a file or a ClickHouse database, and not {scheme}://"
        self.fix = "Give a path such as team.db, or clickhouse://user:password@host:8123/database."
        super().__init__(f"{self.problem}. {self.fix}")


def source_of(settings: Settings, wanted: str | None = None) -> StoreSource:
    """The store of a team: what was asked for, the setting, or the one that its server had last."""
    found = wanted or settings.team.store or _noted(settings.home)
    limits = StateLimits.of(settings.record)
    if found and is_database(found):
        return StoreSource(found, limits, is_team=True, rules=settings.home / _RULES)
    target = settings.home / _DEFAULT
    if found:
        if url := _URL.match(found):
            raise WrongAddressError(url[1])
        # Relative to the settings where it is one of them.
        base = Path.cwd() if wanted else (settings.file or settings.home).parent
        target = (base / Path(found).expanduser()).absolute()
    return StoreSource(target, limits, is_team=True)


def note_target(home: Path, source: StoreSource) -> None:
    """Write down which store it is, for the commands that are run beside the server."""
    write_private(home / _NAME, str(source.target).encode("utf-8", "surrogateescape"))


def _noted(home: Path) -> str:
    try:
        return (home / _NAME).read_bytes().decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""


# -- what is shown of a data directory ------------------------------------------------------------------------------


def shown_source(settings: Settings) -> StoreSource:
    """The store of this data directory; of one that records nothing and has a team's server, the team's store."""
    own = StoreSource(store_path(settings.home), StateLimits.of(settings.record))
    if not (settings.team.store or _noted(settings.home) or (settings.home / _DEFAULT).exists()):
        return own
    team = source_of(settings)
    return team if team.exists() and not _has_recorded(settings) else own


def _has_recorded(settings: Settings) -> bool:
    """Whether this machine recorded something into this directory; a damaged store is one that did."""
    path = store_path(settings.home)
    if not path.exists():
        return False
    try:
        with SqliteStore.open(path) as store:
            return store.last_event() > 0
    except STORE_FAILURES:
        return True


def open_shown_store(settings: Settings) -> Store:
    """The store that is shown of a data directory, for reading; closed by its ``with`` block."""
    source = shown_source(settings)
    if source.is_team:
        return open_team_store(source.target, read_only=True, limits=source.limits, rules=source.rules)
    return SqliteStore.open(Path(source.target), limits=source.limits)


def open_shown_writable(settings: Settings) -> WritableStore:
    """The same store, to write beside sessions that it has."""
    return shown_source(settings).writable()
