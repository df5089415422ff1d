"""Plug-ins: log formats and destinations that other installed packages add through entry points.

A package names them in its ``pyproject.toml``, in ``[project.entry-points."agenttrace.formats"]`` or
``[project.entry-points."agenttrace.destinations"]``. One that cannot be used is reported and left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal["agenttrace.formats", "agenttrace.destinations"]
FORMATS: Group = "agenttrace.formats"
DESTINATIONS: Group = "agenttrace.destinations"
#: What a group adds, for people.
KINDS: dict[Group, str] = {FORMATS: "log format", DESTINATIONS: "destination"}

_REASON_CHARS = 300


class Plugin(NamedTuple):
    """An entry point of a package."""

    group: Group
    #: The format's or the destination type's name.
    name: str
    #: The package and its version.
    package: str
    entry: EntryPoint

    def __str__(self) -> str:
        return f"{KINDS[self.group]} {self.name} of {self.package} ({self.entry.value})"


class BrokenPlugin(NamedTuple):
    """A plug-in that cannot be used, and why."""

    plugin: Plugin
    reason: str

    def __str__(self) -> str:
        return f"the {self.plugin} cannot be used: {self.reason}"


class PluginError(Exception):
    """A plug-in does not work; the message says why."""


@cache
def installed(group: Group) -> tuple[Plugin, ...]:
    """The plug-ins that are installed, in the order of their names; none of their code is run."""
    if not any(f"[{group}]".encode() in text for text in _declarations()):
        return ()  # as nearly everywhere: the library below takes many times as long to import as this to look
    from importlib.metadata import entry_points

    found = (Plugin(group, each.name, _package(each), each) for each in entry_points(group=group))
    return tuple(sorted(found, key=lambda plugin: (plugin.name, plugin.package)))


def _declarations() -> Iterator[bytes]:
    """The entry points of every installed package."""
    for place in sys.path:
        try:
            with os.scandir(place or os.curdir) as entries:
                packages = [each.path for each in entries if each.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for package in packages:
            try:
                with open(os.path.join(package, "entry_points.txt"), "rb") as file:
                    yield file.read()
            except OSError:
                continue


def _package(entry: EntryPoint) -> str:
    return "a package without a name" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"


def named(group: Group, name: str) -> Plugin | None:
    """The plug-in of this name; the first where several packages use it."""
    return next((plugin for plugin in installed(group) if plugin.name == name), None)


def load(plugin: Plugin) -> Any:  # noqa: ANN401 - whatever the package names
    """What the entry point names; its module is run for that."""
    try:
        return plugin.entry.load()
    except (Exception, SystemExit) as error:  # a package may do anything when it is imported
        raise PluginError(reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    """What went wrong, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}{': ' if text else ''}{text}"[:_REASON_CHARS]
