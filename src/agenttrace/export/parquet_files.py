"""Parquet files that can be read as one table: ``spans-2026-11-15-000001.parquet`` and so on, typed, a row a span.

Columns are the fields of a record of ``span_files``: times in microseconds (UTC), tokens as integers, costs as numbers,
texts as a list of structs, attributes as a JSON text. A file is written under another name, synced and renamed, so that
readers see whole files only. Turns come one by one, and thousands of tiny files are slow to read: while the newest file
of a day is small, it is replaced by one that has its rows and the new ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence, Set
from pathlib import Path
from typing import Any

from agenttrace.destinations import DestinationSettings
from agenttrace.export.span import ExportSpan
from agenttrace.export.span_files import TOKENS, FileDestination, SpanFile, UnreadableError, record_of, today
from agenttrace.export.wire_text import clean, encoded

#: Spans in one portion where there are so many: files of this many rows are quick to read.
BATCH_SPANS = 10_000
#: A file with more rows, or more bytes before compression, gets no more rows.
FULL_ROWS = 10_000
FULL_BYTES = 16 * 1024 * 1024

#: Does not end in .parquet, so that readers do not open it.
_UNFINISHED = ".spans.parquet.unfinished"
_INT64 = 2**63 - 1


class ParquetDestination(FileDestination):
    """Writes Parquet files to one directory; raises ImportError where pyarrow is not installed."""

    names = r"-\d{6}\.parquet"

    def __init__(self, settings: DestinationSettings) -> None:
        super().__init__(settings)
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]

        self.max_spans = max(settings.batch_spans, BATCH_SPANS)
        self._arrow = pyarrow

    def _write(self, spans: Sequence[ExportSpan]) -> int:
        rows = [_row(span, self._settings) for span in spans]
        table = self._arrow.Table.from_pylist(rows, schema=_schema(self._arrow, rows[0]))
        day = today()
        newest = next((each for each in self.files() if each.day == day), None)
        before = self._small(newest, table.schema) if newest is not None else None
        if newest is None or before is None:
            number = int(newest.rest[1:7]) + 1 if newest is not None else 1
            target = self.path / f"spans-{day}-{number:06}.parquet"
        else:
            target, table = newest.path, self._arrow.concat_tables([before, table])
        unfinished = self.path / _UNFINISHED
        try:
            with open(unfinished, "wb", opener=_private) as file:
                self._arrow.parquet.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
                size = file.tell()
            os.replace(unfinished, target)
        except BaseException:
            # On a full disk its space is needed.
            unfinished.unlink(missing_ok=True)
            raise
        self.sync_directory()
        return size

    def _small(self, file: SpanFile, schema: Any) -> Any:  # noqa: ANN401 - a table of pyarrow's
        """The rows of a file that has room for more; None where it is full, or has another schema."""
        try:
            with self._arrow.parquet.ParquetFile(file.path) as found:
                about = found.metadata
                size = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
                fits = about.num_rows < FULL_ROWS and size < FULL_BYTES
                return found.read() if fits and found.schema_arrow.equals(schema) else None
        except (OSError, self._arrow.ArrowException):
            return None

    def _ids(self, path: Path, wanted: Set[str]) -> Iterable[str]:
        try:
            with self._arrow.parquet.ParquetFile(path) as file:
                return {str(name) for name in file.read(columns=["span_id"]).column("span_id").to_pylist()}
        except (KeyError, self._arrow.ArrowException) as error:
            raise UnreadableError(str(path)) from error


def _schema(pa: Any, names: Iterable[str]) -> Any:  # noqa: ANN401 - pyarrow and a schema of its
    """The columns of these fields; those without another type are texts."""
    text = pa.string()
    types: dict[str, Any] = dict.fromkeys(("turn_index", "step_n", *TOKENS), pa.int64())
    types |= dict.fromkeys(("start", "end"), pa.timestamp("us", tz="UTC"))
    # A cost is not a decimal, which pandas would read as objects.
    types |= dict.fromkeys(("duration_ms", "cost"), pa.float64())
    types |= dict.fromkeys(("subagent", "estimated", "copied"), pa.bool_())
    types |= {"path": pa.list_(text), "texts": pa.list_(pa.struct([("kind", text), ("text", text), ("call", text)]))}
    ids = ("span_id", "trace_id")
    return pa.schema([pa.field(name, types.get(name, text), nullable=name not in ids) for name in names])


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
