"""Which destination a table of the settings means."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from agenttrace.destinations import DestinationSettings
from agenttrace.export.cozeloop import CozeLoopDestination
from agenttrace.export.destination import Destination
from agenttrace.export.jsonl_files import JsonlDestination
from agenttrace.export.langfuse import LangfuseDestination
from agenttrace.export.langsmith import LangSmithDestination
from agenttrace.export.otlp import OtlpDestination
from agenttrace.export.parquet_files import ParquetDestination

_KINDS: dict[str, Callable[[DestinationSettings], Destination]] = {
    "otlp": OtlpDestination,
    "langfuse": LangfuseDestination,
    "langsmith": LangSmithDestination,
    "cozeloop": CozeLoopDestination,
    "jsonl": JsonlDestination,
    "parquet": ParquetDestination,
}


class UnusableDestinationError(Exception):
    """A destination cannot be used; the message says why and what to do."""


def destination_of(settings: DestinationSettings) -> Destination:
    """The destination; nothing is sent or opened yet."""
    if settings.missing:
        names = ", ".join(settings.missing)
        raise UnusableDestinationError(
            f"its table names {names}, which the environment does not have. Set it, and start again."
        )
    if settings.type == "parquet" and find_spec("pyarrow") is None:
        raise UnusableDestinationError("Parquet files need pyarrow. Install it with: pip install 'agenttrace[parquet]'")
    return _KINDS[settings.type](settings)
