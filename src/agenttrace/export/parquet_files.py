"""Parquet files that are read as one table: ``spans-2026-11-15-000001.parquet`` and so on, typed, a row a span.

Columns are the fields of ``records``: times in microseconds (UTC), tokens as integers, costs as numbers, texts as a
list of structs, attributes as a JSON text. A file is written under another name, brought to the disk and renamed, so
that whoever reads sees whole files only. Turns come one by one, and thousands of tiny files are slow to read: while the
newest file of a day is small, a portion takes its place together with its rows.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from agenttrace.destinations import DestinationSettings
from agenttrace.export.destination import Delivery
from agenttrace.export.json_values import clean, encoded
from agenttrace.export.records import record_of
from agenttrace.export.span import ExportSpan
from agenttrace.export.span_directory import DoubtfulError, SpanDirectory, SpanFile, earliest, not_written, today

#: Spans in one portion where there are so many: files of this many rows are quick to read.
BATCH_SPANS = 10_000
#: A file with more rows, or more bytes before compression, is left as it is.
FULL_ROWS = 10_000
FULL_BYTES = 16 * 1024 * 1024
MISSING = "Parquet files need pyarrow. Install it with: pip install 'agenttrace[parquet]'"

_NAMES = r"-\d{6}\.parquet"
#: Not ending in .parquet: nobody takes it for one.
_UNFINISHED = ".spans.parquet.unfinished"
_INT64 = 2**63 - 1
#: Two destinations may share a directory.
_writing = threading.Lock()


class _Arrow(NamedTuple):
    """The modules of pyarrow, which not everybody has."""

    core: Any
    parquet: Any
    schema: Any


class ParquetDestination:
    """Writes to one directory."""

    #: A row that is written twice is there twice.
    ignores_repeats = False
    can_read_back = True
    #: It is on the disk by then.
    accepted_is_stored = True

    def __init__(self, settings: DestinationSettings) -> None:
        self._settings = settings
        self._directory = SpanDirectory(settings.path or "")
        self.max_spans = max(settings.batch_spans, BATCH_SPANS)
        self._loaded: _Arrow | None = None

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        """Write rows to the newest file of the day, or to a new one."""
        return await asyncio.to_thread(self._written, spans)

    def _written(self, spans: Sequence[ExportSpan]) -> Delivery:
        arrow = self._arrow()
        if arrow is None:
            return Delivery(verdict="blocked", reason=MISSING)
        table = arrow.core.Table.from_pylist([_row(span, self._settings) for span in spans], schema=arrow.schema)
        try:
            with _writing:
                self._directory.ensure()
                size = self._placed(arrow, table)
        except DoubtfulError as error:
            return Delivery(verdict="unknown", reason=str(error))
        except OSError as error:
            return not_written(error)
        return Delivery(verdict="accepted", sent_bytes=size)

    def _placed(self, arrow: _Arrow, table: Any) -> int:  # noqa: ANN401 - a table of pyarrow's
        """Put rows where they belong, and how many bytes were written."""
        day = today()
        newest = next((each for each in self._directory.files(_NAMES) if each.day == day), None)
        before = _small(arrow, newest) if newest is not None else None
        if newest is None or before is None:
            number = int(newest.rest[1:7]) + 1 if newest is not None else 1
            target = self._directory.path / f"spans-{day}-{number:06}.parquet"
        else:
            target, table = newest.path, arrow.core.concat_tables([before, table])
        unfinished = self._directory.path / _UNFINISHED
        try:
            with open(unfinished, "wb", opener=_private) as file:
                arrow.parquet.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            os.replace(unfinished, target)
        except BaseException:
            # On a full disk its space is needed.
            unfinished.unlink(missing_ok=True)
            raise
        self._directory.sync()
        return size

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        """Which of these spans have a row; None where a file cannot be read."""
        wanted = {span.span_id.hex(): span.span_id for span in spans}
        return await asyncio.to_thread(self._found, wanted, earliest(spans))

    def _found(self, wanted: dict[str, bytes], since: date) -> set[bytes] | None:
        arrow = self._arrow()
        if arrow is None:
            return None
        found: set[bytes] = set()
        with _writing:
            for each in self._directory.files(_NAMES):
                if each.day < since or len(found) == len(wanted):
                    break
                ids = _ids(arrow, each.path)
                if ids is None:
                    return None
                found |= {wanted[name] for name in ids if name in wanted}
        return found

    async def check(self) -> str:
        """Whether pyarrow is there and the directory can be written to; it is not made yet."""
        if await asyncio.to_thread(self._arrow) is None:
            return MISSING
        return await asyncio.to_thread(self._directory.problem)

    async def close(self) -> None:
        """Nothing is kept open."""

    def _arrow(self) -> _Arrow | None:
        if self._loaded is None:
            with suppress(ImportError):
                self._loaded = _load()
        return self._loaded


def _load() -> _Arrow:
    import pyarrow  # type: ignore[import-untyped]
    import pyarrow.parquet  # type: ignore[import-untyped]

    return _Arrow(pyarrow, pyarrow.parquet, _schema(pyarrow))


def _schema(pa: Any) -> Any:  # noqa: ANN401 - pyarrow and a schema of its
    text, number, moment, flag = pa.string(), pa.int64(), pa.timestamp("us", tz="UTC"), pa.bool_()
    said = pa.list_(pa.struct([("kind", text), ("text", text), ("call", text)]))
    return pa.schema(
        [
            pa.field("span_id", text, nullable=False),
            pa.field("trace_id", text, nullable=False),
            ("parent_id", text),
            ("path", pa.list_(text)),
            *((name, text) for name in ("session_id", "agent", "agent_version", "project", "branch", "title")),
            *((name, text) for name in ("kind", "name")),
            ("start", moment),
            ("end", moment),
            ("duration_ms", pa.float64()),
            ("status", text),
            ("error", text),
            ("turn_index", number),
            ("step_n", number),
            ("agent_name", text),
            ("subagent", flag),
            ("model", text),
            *((name, number) for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")),
            *((name, number) for name in ("cache_write_1h_tokens", "reasoning_tokens")),
            # Not a decimal: whoever reads it with pandas would get objects.
            ("cost", pa.float64()),
            ("currency", text),
            ("estimated", flag),
            ("copied", flag),
            *((name, text) for name in ("finish_reason", "response_id", "tool", "call")),
            ("texts", said),
            ("attributes", text),
            *((name, text) for name in ("user", "environment")),
        ]
    )


def _row(span: ExportSpan, settings: DestinationSettings) -> dict[str, Any]:
    record = record_of(span, settings)
    record["cost"] = None if span.cost is None else float(span.cost)
    record["attributes"] = encoded(span.attributes).decode() if span.attributes else None
    record["texts"] = [{name: _value(value) for name, value in each.items()} for each in record["texts"]]
    return {name: _value(value) for name, value in record.items()}


def _value(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, int):
        return min(max(value, -_INT64), _INT64)
    return value


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _small(arrow: _Arrow, file: SpanFile) -> Any:  # noqa: ANN401 - a table of pyarrow's
    """The rows of a file that has room for more; None where it has none, or was not written by this version."""
    try:
        with arrow.parquet.ParquetFile(file.path) as found:
            about = found.metadata
            size = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
            fits = about.num_rows < FULL_ROWS and size < FULL_BYTES
            return found.read() if fits and found.schema_arrow.equals(arrow.schema) else None
    except (OSError, arrow.core.ArrowException):
        return None


def _ids(arrow: _Arrow, path: Path) -> Iterable[str] | None:
    try:
        with arrow.parquet.ParquetFile(path) as file:
            return {str(name) for name in file.read(columns=["span_id"]).column("span_id").to_pylist()}
    except FileNotFoundError:
        return ()  # taken away in this moment
    except (OSError, KeyError, arrow.core.ArrowException):
        return None
