"""A sequence of answers that can become a table: dictionaries, an Arrow table or a pandas data frame."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class Rows(Sequence[T], Generic[T]):
    """An immutable sequence of frozen objects."""

    def __init__(self, rows: Iterable[T], columns: Sequence[str]) -> None:
        self._rows = tuple(rows)
        #: The names of the columns of a table, also where there are no rows.
        self.columns = tuple(columns)

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Rows[T]: ...
    def __getitem__(self, index: int | slice) -> T | Rows[T]:
        return Rows(self._rows[index], self.columns) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._rows == other._rows

    def __hash__(self) -> int:
        return hash(self._rows)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self._rows[:3]))
        return f"Rows([{shown}{', ...' if len(self) > 3 else ''}], {len(self)} in all)"

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary for each row."""
        return [{name: getattr(row, name) for name in self.columns} for row in self._rows]

    def to_arrow(self) -> Any:  # noqa: ANN401 - pyarrow.Table
        """An Arrow table; needs pyarrow: ``pip install 'agenttrace[parquet]'``."""
        try:
            import pyarrow  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("to_arrow() needs pyarrow. Install it with: pip install 'agenttrace[parquet]'") from error
        if not self._rows:
            return pyarrow.table({name: pyarrow.array([], pyarrow.null()) for name in self.columns})
        return pyarrow.Table.from_pylist(list(map(_plain, self.to_dicts())))

    def to_pandas(self) -> Any:  # noqa: ANN401 - pandas.DataFrame
        """A pandas data frame; needs pandas."""
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas. Install it with: pip install pandas") from error
        return pandas.DataFrame(self.to_dicts(), columns=list(self.columns))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Values that fit into a column: a mapping as JSON, another object by its id."""
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: Any) -> Any:  # noqa: ANN401 - whatever an answer holds
    if isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.id if dataclasses.is_dataclass(value) and hasattr(value, "id") else value


def columns_of(kind: type) -> tuple[str, ...]:
    """The public fields of a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind) if not field.name.startswith("_"))
