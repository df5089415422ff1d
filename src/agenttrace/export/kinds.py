"""Destination types: the built-in ones, and those of plug-ins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from typing import NamedTuple

from agenttrace.destinations import DestinationSettings
from agenttrace.export.cozeloop import CozeLoopDestination
from agenttrace.export.destination import Delivery, Destination
from agenttrace.export.jsonl_files import JsonlDestination
from agenttrace.export.langfuse import LangfuseDestination
from agenttrace.export.langsmith import LangSmithDestination
from agenttrace.export.otlp import OtlpDestination
from agenttrace.export.parquet_files import ParquetDestination
from agenttrace.export.span import ExportSpan
from agenttrace.plugins import DESTINATIONS, BrokenPlugin, Plugin, PluginError, installed, load, named, reason_of

_KINDS: dict[str, Callable[[DestinationSettings], Destination]] = {
    "otlp": OtlpDestination,
    "langfuse": LangfuseDestination,
    "langsmith": LangSmithDestination,
    "cozeloop": CozeLoopDestination,
    "jsonl": JsonlDestination,
    "parquet": ParquetDestination,
}
logger = logging.getLogger(__name__)

_METHODS = ("send", "present", "check", "close")


class UnusableDestinationError(Exception):
    """A destination cannot be used; the message has the reason and the fix."""


def destination_of(settings: DestinationSettings) -> Destination:
    """The destination of these settings; nothing is sent or opened yet."""
    if settings.missing:
        names = ", ".join(settings.missing)
        raise UnusableDestinationError(
            f"its table names {names}, which the environment does not have. Set it, and start again."
        )
    if settings.type not in _KINDS:
        return _from_plugin(settings)
    try:
        return _KINDS[settings.type](settings)
    except ImportError as error:
        fix = "Install it with: pip install 'agenttrace[parquet]'"
        raise UnusableDestinationError(f"Parquet files need pyarrow. {fix}") from error


def takes_annotations(kind: str) -> bool:
    """Whether notes, scores and labels are sent to destinations of this type."""
    return hasattr(_KINDS.get(kind), "send_annotation")


# -- plug-ins -------------------------------------------------------------------------------------------------


class Plugins(NamedTuple):
    """The destination types of other packages."""

    usable: tuple[Plugin, ...]
    broken: tuple[BrokenPlugin, ...]


def plugins() -> Plugins:
    """All that are installed; their modules are imported, and no destination is created."""
    usable: dict[str, Plugin] = {}
    broken: list[BrokenPlugin] = []
    for plugin in installed(DESTINATIONS):
        try:
            if plugin.name in _KINDS or plugin.name in usable:
                raise PluginError("there is another destination of that type")
            _factory(plugin)
            usable[plugin.name] = plugin
        except PluginError as error:
            broken.append(BrokenPlugin(plugin, str(error)))
    return Plugins(tuple(usable.values()), tuple(broken))


def _factory(plugin: Plugin) -> Callable[[DestinationSettings], Destination]:
    found: Callable[[DestinationSettings], Destination] = load(plugin)
    if not callable(found):
        raise PluginError("it names nothing that can be called with the settings of a destination")
    return found


def _from_plugin(settings: DestinationSettings) -> Destination:
    plugin = named(DESTINATIONS, settings.type)
    if plugin is None:
        raise UnusableDestinationError(f"no package adds the destination type {settings.type}. Install one that does.")
    try:
        return PluginDestination(plugin, _made(_factory(plugin), settings))
    except PluginError as error:
        fix = "Fix or update the package, or remove the table from agenttrace.toml."
        raise UnusableDestinationError(f"{BrokenPlugin(plugin, str(error))}. {fix}") from error


def _made(factory: Callable[[DestinationSettings], Destination], settings: DestinationSettings) -> Destination:
    try:
        return factory(settings)
    except Exception as error:
        raise PluginError(reason_of(error)) from error


class PluginDestination:
    """A destination of another package; its answers are checked, so that its defects affect nothing else."""

    def __init__(self, plugin: Plugin, destination: Destination) -> None:
        missing = [name for name in _METHODS if not callable(getattr(destination, name, None))]
        if missing:
            raise PluginError(f"it has no {', '.join(missing)}; docs/export.md describes what a destination has")
        self._plugin = plugin
        self._destination = destination
        self.ignores_repeats = bool(getattr(destination, "ignores_repeats", False))
        self.can_read_back = bool(getattr(destination, "can_read_back", False))
        # Without reading back, an accepted span counts as stored: nothing else can be known.
        self.accepted_is_stored = bool(getattr(destination, "accepted_is_stored", True)) or not self.can_read_back
        most = getattr(destination, "max_spans", 500)
        self.max_spans = most if isinstance(most, int) and most > 0 else 500

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Send spans; an answer that is no Delivery raises, and the outcome is unknown."""
        found: object = await self._destination.send(spans)
        if isinstance(found, Delivery):
            return found
        raise PluginError(f"{self._plugin} answered with no Delivery")

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these it has, where it answers."""
        found: object = await self._destination.present(spans)
        return found if isinstance(found, Set) else None

    async def check(self) -> str:
        """Its problem, also where the check itself fails."""
        try:
            return str(await self._destination.check() or "")
        except Exception as error:
            return f"{self._plugin} failed: {reason_of(error)}"

    async def close(self) -> None:
        """Close connections and files; an error is logged."""
        try:
            await self._destination.close()
        except Exception as error:
            logger.warning("the %s failed when it was closed: %s", self._plugin, reason_of(error))
