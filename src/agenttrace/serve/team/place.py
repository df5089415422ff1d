"""Which store the server of a team has: what was asked for, the setting, or the one that it had last."""

from __future__ import annotations

from pathlib import Path

from agenttrace.config import Settings
from agenttrace.config.toml_files import write_private
from agenttrace.store import is_database
from agenttrace.store.current import StoreSource
from agenttrace.store.session_state import StateLimits

#: Where the last one is written down; a URL has a password in it.
_NAME = "team.store"
_DEFAULT = "team.db"
#: The bookkeeping of rules, where the store is a database.
_RULES = "team-rules.db"


def source_of(settings: Settings, wanted: str | None = None) -> StoreSource:
    """The store of a team."""
    found = wanted or settings.team.store or _noted(settings.home)
    limits = StateLimits.of(settings.record)
    if found and is_database(found):
        return StoreSource(found, limits, is_team=True, rules=settings.home / _RULES)
    target = settings.home / _DEFAULT
    if found:
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
