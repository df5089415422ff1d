"""The formats that there are: those of this package, and those of others, which are loaded through entry points.

A format of another package that cannot be loaded is left out. One that fails at work loses what it failed at: a line
is quarantined with the reason, a file is not recognised, a directory is not watched; every other format goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from agenttrace.model import Event
from agenttrace.plugins import FORMATS, BrokenPlugin, Plugin, PluginError, installed, load, reason_of
from agenttrace.record.formats.contract import (
    Agent,
    Content,
    Find,
    LogCleanup,
    Memory,
    ResumeCommand,
    Source,
    Traits,
    Unusable,
)
from agenttrace.record.ingest.acts import Act, ResponseUsage

T = TypeVar("T")

logger = logging.getLogger(__name__)

_METHODS = ("homes", "is_log", "recognise", "decode", "acts", "content")


class Formats(NamedTuple):
    """The formats of this package and of others."""

    agents: tuple[Agent, ...]
    broken: tuple[BrokenPlugin, ...]


def load_formats(built_in: Iterable[type[Agent]]) -> Formats:
    """Those that are part of this package, and all that are installed: each is made and checked in the same way.

    One of this package that cannot be used is a fault of it; one of another package is left out.
    """
    agents: dict[str, Agent] = {}
    for built in built_in:
        _check_name(built.name, agents)
        agents[built.name] = _checked(built.name, built)
    broken: list[BrokenPlugin] = []
    for plugin in installed(FORMATS):
        try:
            _check_name(plugin.name, agents)
            agents[plugin.name] = PluginAgent(plugin, _checked(plugin.name, load(plugin)))
        except PluginError as error:
            broken.append(BrokenPlugin(plugin, str(error)))
    return Formats(tuple(agents.values()), tuple(broken))


def _check_name(name: str, taken: Collection[str]) -> None:
    if name in taken:
        raise PluginError("there is another format of that name")


def _checked(name: str, found: Any) -> Agent:  # noqa: ANN401 - whatever the package names
    """A format: an instance of a class, or an object."""
    try:
        agent: Agent = found() if isinstance(found, type) else found
    except Exception as error:
        raise PluginError(f"it cannot be made: {reason_of(error)}") from error
    missing = [name for name in _METHODS if not callable(getattr(agent, name, None))]
    if missing:
        raise PluginError(f"it has no {', '.join(missing)}; docs/adding-a-format.md describes what a format has")
    if getattr(agent, "name", None) != name:
        raise PluginError(f"its name is {getattr(agent, 'name', None)!r}, but its entry point is named {name!r}")
    if not isinstance(getattr(agent, "traits", Traits()), Traits):
        raise PluginError("its traits are no agenttrace.record.formats.contract.Traits")
    return agent


class PluginAgent(Agent):
    """A format of another package. Its exceptions become the fault of a line, or a default."""

    def __init__(self, plugin: Plugin, agent: Agent) -> None:
        self._plugin = plugin
        self._agent = agent
        self._reported: set[str] = set()
        self.name = plugin.name
        self.title = str(getattr(agent, "title", "") or plugin.name)
        self.traits = getattr(agent, "traits", Traits())

    def homes(self, environ: Mapping[str, str], home: Path) -> list[Path]:
        """None where it fails."""
        return self._tried("homes", lambda: [Path(path) for path in self._agent.homes(environ, home)], [])

    def is_log(self, path: Path) -> bool:
        """Not where it fails."""
        return self._tried("is_log", lambda: bool(self._agent.is_log(path)), False)

    def recognise(self, path: Path, head: bytes) -> Source | None:
        """Under its own name; not where it fails."""
        return self._tried("recognise", lambda: self._own(self._agent.recognise(path, head)), None)

    def _own(self, source: Source | None) -> Source | None:
        return None if source is None else msgspec.structs.replace(source, agent=self.name)

    def decode(self, raw: bytes, source: Source) -> Event | Unusable:
        """A line over which it fails is set aside."""
        try:
            found: object = self._agent.decode(raw, source)
        except Exception as error:
            return Unusable(f"{self._plugin} failed: {reason_of(error)}", harmless=False)
        if isinstance(found, Event | Unusable):
            return found
        return Unusable(f"{self._plugin} failed: decode gave no Event", harmless=False)

    def acts(self, event: Event, source: Source, memory: Memory) -> Iterable[Act]:
        """A line over which it fails is set aside: its errors are never taken for errors of the store."""
        try:
            yield from self._agent.acts(event, source, memory)
        except Exception as error:
            raise PluginError(f"{self._plugin} failed: {reason_of(error)}") from error

    def content(self, event: Event, source: Source) -> list[Content]:
        """Nothing where it fails."""
        return self._tried("content", lambda: list(self._agent.content(event, source)), [])

    # -- what a class that does not derive from ``Agent`` may leave out ---------------------------------------

    def session_name(self, path: Path) -> str:
        """The file's name where it fails."""
        return self._optional("session_name", super().session_name(path), path)

    def repeated_usage(self, event: Event, source: Source, memory: Memory) -> ResponseUsage | None:
        """Nothing where it fails."""
        return self._optional("repeated_usage", None, event, source, memory)

    def attributes(self, raw: bytes, find: Find) -> dict[str, Any]:
        """Nothing where it fails."""
        return self._optional("attributes", {}, raw, find)

    def cleanups(self, logs: Sequence[Path]) -> list[LogCleanup]:
        """None where it fails."""
        return self._optional("cleanups", [], logs)

    def resume_command(self, session_id: str, logs: Sequence[Path]) -> ResumeCommand | None:
        """None where it fails."""
        return self._optional("resume_command", None, session_id, logs)

    def _optional(self, method: str, otherwise: T, *given: object) -> T:
        call: Callable[..., T] | None = getattr(self._agent, method, None)
        return otherwise if call is None else self._tried(method, lambda: call(*given), otherwise)

    def _tried(self, method: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            return call()
        except Exception as error:
            if method not in self._reported:
                self._reported.add(method)
                logger.warning("the %s failed in %s: %s", self._plugin, method, reason_of(error))
            return otherwise
