"""All settings of a process with the origin of each value, and the description of each setting."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from agenttrace.config.rules import ActionSettings, BudgetSettings, RuleSettings
from agenttrace.config.sections import (
    SECTIONS,
    DatabaseSettings,
    ExportSettings,
    JwtSettings,
    RecordSettings,
    RetentionSettings,
    RunSettings,
    ServeSettings,
    TeamSettings,
    UsageSettings,
    about,
)
from agenttrace.config.types import Text
from agenttrace.destinations import DestinationSettings
from agenttrace.model import Price


class SettingsError(Exception):
    """A setting that cannot be used: where it is set, its name, what is wrong and how to fix it."""

    def __init__(self, *, where: str, key: str, problem: str, fix: str) -> None:
        super().__init__(f"{where}: {key} {problem}. {fix}" if key else f"{where} {problem}. {fix}")
        self.where, self.key, self.problem, self.fix = where, key, problem, fix


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings, immutable after loading."""

    #: The data directory.
    home: Path
    #: The settings file, whether or not it exists.
    file: Path | None = None
    record: RecordSettings = RecordSettings()
    retention: RetentionSettings = RetentionSettings()
    usage: UsageSettings = UsageSettings()
    database: DatabaseSettings = DatabaseSettings()
    jwt: JwtSettings = JwtSettings()
    run: RunSettings = RunSettings()
    serve: ServeSettings = ServeSettings()
    export: ExportSettings = ExportSettings()
    team: TeamSettings = TeamSettings()
    destinations: tuple[DestinationSettings, ...] = ()
    #: Settings of the whole catalog, and the user's own applications, events and schedules, as the file has them.
    catalog: Mapping[str, Any] = MappingProxyType({})
    apps: Mapping[str, Any] = MappingProxyType({})
    events: Mapping[str, Any] = MappingProxyType({})
    schedules: Mapping[str, Any] = MappingProxyType({})
    #: The user's own, by name; ``rule_tables.all_rules`` has those that ship, too.
    rules: Mapping[str, RuleSettings] = MappingProxyType({})
    actions: Mapping[str, ActionSettings] = MappingProxyType({})
    budgets: Mapping[str, BudgetSettings] = MappingProxyType({})
    #: The user's own prices; ``Price.model`` is a name, or a prefix with ``*`` behind it.
    prices: tuple[Price, ...] = ()
    origins: Mapping[str, str] = MappingProxyType({})

    def origin(self, name: str) -> str:
        """Where a value came from: ``default``, ``file PATH``, ``environment NAME`` or ``flag``."""
        if name not in self.origins and name not in SETTINGS:
            raise KeyError(name)
        return self.origins.get(name, "default")

    def value(self, name: str) -> object:
        """The value of a setting by its full name, such as ``record.paths``."""
        found: object = self
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def shown(self, name: str) -> object:
        """The value of a setting for display: of a secret only that it is set."""
        value = self.value(name)
        return "***" if SETTINGS[name].secret and value is not None else value


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The description of one setting."""

    name: str
    type: Any
    default: object

    def _extra(self, key: str) -> Any:  # noqa: ANN401 - as it was described
        return next((meta.extra[key] for meta in _metas(self.type) if meta.extra and meta.extra.get(key)), "")

    @property
    def valid(self) -> str:
        """What a value must be."""
        return next(meta.description for meta in _metas(self.type) if meta.description)

    @property
    def variable(self) -> str:
        """The environment variable: ``record.paths`` is ``AGENTTRACE_RECORD_PATHS``."""
        return "AGENTTRACE_" + self.name.replace(".", "_").upper()

    @property
    def markdown(self) -> str:
        """The meaning, as the documentation has it."""
        return str(self._extra("meaning"))

    @property
    def meaning(self) -> str:
        """The meaning as plain text."""
        return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", self.markdown).replace("`", "")

    @property
    def example(self) -> str:
        """An example as a line of the file."""
        return f"{self.name.rpartition('.')[2]} = {self._extra('example')}"

    @property
    def secret(self) -> bool:
        """Whether its value is never shown."""
        return bool(self._extra("secret"))

    @property
    def split(self) -> str:
        """The characters between the entries of a list in the variable; empty where it is no list."""
        return str(self._extra("split")).replace("PATHSEP", os.pathsep)

    @property
    def is_zone(self) -> bool:
        """Whether it names a time zone."""
        return bool(self._extra("zone"))


def _metas(kind: Any) -> Iterator[msgspec.Meta]:  # noqa: ANN401 - any annotation
    """The metadata of a type, the most specific first; of an optional type, that of the type itself."""
    yield from reversed(getattr(kind, "__metadata__", ()))
    inner = get_args(kind)[:1]
    if inner and get_origin(inner[0]) in (Union, UnionType):
        yield from _metas(get_args(inner[0])[0])


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default_factory() if field.default is msgspec.NODEFAULT else field.default


_HOME: Any = Annotated[
    Text, about("The data directory. Created with access for its owner alone (0700).", '"/data/agenttrace"')
]

#: Every setting by its full name.
SETTINGS: dict[str, Setting] = {"home": Setting(name="home", type=_HOME, default="~/.agenttrace")} | {
    name: Setting(name=name, type=field.type, default=_default(field))
    for section, struct in SECTIONS.items()
    for field in msgspec.structs.fields(struct)
    for name in [f"{section}.{field.name}"]
    if name not in SECTIONS
}


def ensure_home(settings: Settings) -> Path:
    """Create the data directory with access for its owner alone, and check that it can be used."""
    home = settings.home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            home.mkdir(mode=0o700)
    except OSError as error:
        raise _unusable(settings, f"cannot be created ({error.strerror})") from error
    if not home.is_dir():
        raise _unusable(settings, "is not a directory")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(settings, "is not writable")
    if home.stat().st_mode & 0o077:
        # Another program may have created it with the usual mode, to write its logs into it.
        with contextlib.suppress(OSError):
            home.chmod(0o700)
    return home


def _unusable(settings: Settings, problem: str) -> SettingsError:
    fix = "Fix that, or set AGENTTRACE_HOME to another directory."
    return SettingsError(where=settings.origin("home"), key="home", problem=f"{settings.home} {problem}", fix=fix)
