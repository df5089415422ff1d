"""Tables that fit the terminal: columns are cut or dropped in a fixed order.

Not drawn with Rich's tables, which shrink every column alike and take a second for ten thousand rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agenttrace.cli import output

if TYPE_CHECKING:
    from rich.text import Text

T = TypeVar("T")
_GAP = 2


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column: its cells, their style, and how it shrinks when the terminal is narrow."""

    name: str
    #: The cell of an item; ``None`` is shown as a dash.
    cell: Callable[[T], object]
    right: bool = False
    #: Texts are cut down to this width; 0: never cut.
    least: int = 0
    #: Cut the beginning and not the end, as for paths.
    keep_end: bool = False
    #: Columns with the highest number are dropped first; 0: never dropped.
    optional: int = 0
    #: One style, or a style for each text of a cell.
    style: str | Mapping[str, str] = ""

    def text(self, item: T) -> Text:
        """The cell of an item as it is drawn."""
        from rich.text import Text

        cell = self.cell(item)
        if isinstance(cell, Text):
            return cell.copy()
        text = "–" if cell is None else str(cell)
        return output.styled(text, self.style if isinstance(self.style, str) else self.style.get(text, ""))


def print_list(
    items: Sequence[T],
    columns: Sequence[Column[T]],
    fields: Callable[[T], dict[str, Any]],
    *,
    as_json: bool,
    empty: str,
    hint: str = "",
) -> None:
    """Print items as JSON or as a table with a hint below; ``empty`` is printed instead of an empty table."""
    if as_json:
        output.print_json([fields(item) for item in items])
    elif not items:
        output.say(empty)
    else:
        print_table(columns, items)
        if hint:
            output.note(hint)


def print_table(columns: Sequence[Column[T]], items: Sequence[T], *, footer: T | None = None) -> None:
    """Print items under their headers, and a footer set apart."""
    console = output.stdout()
    for line in table_lines(columns, items, footer=footer, width=console.width):
        console.print(line, soft_wrap=True)


def table_lines(
    columns: Sequence[Column[T]], items: Sequence[T], *, footer: T | None = None, width: int
) -> Iterator[Text]:
    """The lines of a table no wider than ``width``, if its columns can be made to fit."""
    from rich.text import Text

    rows = [*items] if footer is None else [*items, footer]
    cells = [[column.text(item) for column in columns] for item in rows]
    natural = [
        max(len(column.name), *(row[index].cell_len for row in cells), 0) for index, column in enumerate(columns)
    ]
    blank = {index for index in range(len(columns)) if all(row[index].plain in ("–", "") for row in cells)}
    shown = _chosen(columns, natural, width, blank)
    widths = _fitted(columns, natural, shown, width)
    yield _line([Text(columns[index].name, style="bold") for index in shown], columns, shown, widths)
    yield Text("─" * (sum(widths) + _GAP * (len(shown) - 1)), style="dim")
    for number, row in enumerate(cells):
        if footer is not None and number == len(cells) - 1:
            yield Text("─" * (sum(widths) + _GAP * (len(shown) - 1)), style="dim")
        yield _line([row[index] for index in shown], columns, shown, widths)


def _least(column: Column[Any], natural: int) -> int:
    return min(natural, column.least) if column.least else natural


def _chosen(columns: Sequence[Column[Any]], natural: Sequence[int], width: int, blank: Container[int]) -> list[int]:
    """Which columns stay: those with nothing in them go before any text is cut."""
    shown = list(range(len(columns)))
    if sum(natural) + _GAP * (len(shown) - 1) > width:
        shown = [index for index in shown if not (columns[index].optional and index in blank)]
    while True:
        needed = sum(_least(columns[index], natural[index]) for index in shown) + _GAP * (len(shown) - 1)
        optional = [index for index in shown if columns[index].optional]
        if needed <= width or not optional:
            return shown
        shown.remove(max(optional, key=lambda index: columns[index].optional))


def _fitted(columns: Sequence[Column[Any]], natural: Sequence[int], shown: Sequence[int], width: int) -> list[int]:
    """The widths of the columns that stay; the widest text is cut first."""
    widths = {index: natural[index] for index in shown}
    excess = sum(widths.values()) + _GAP * (len(shown) - 1) - width
    while excess > 0:
        flexible = [index for index in shown if widths[index] > _least(columns[index], natural[index])]
        if not flexible:
            break
        ordered = sorted(flexible, key=lambda index: widths[index], reverse=True)
        widest = ordered[0]
        floor = _least(columns[widest], natural[widest])
        next_width = widths[ordered[1]] if len(ordered) > 1 else floor
        cut = min(excess, max(1, widths[widest] - max(floor, next_width)))
        widths[widest] -= cut
        excess -= cut
    return [widths[index] for index in shown]


def _line(cells: list[Text], columns: Sequence[Column[Any]], shown: Sequence[int], widths: Sequence[int]) -> Text:
    from rich.text import Text

    line = Text()
    for place, (cell, index, width) in enumerate(zip(cells, shown, widths, strict=True)):
        if cell.cell_len > width and columns[index].keep_end:
            cell = Text("…", style=cell.style) + cell[len(cell) - width + 1 :]
        if cell.cell_len > width:
            cell.truncate(width, overflow="ellipsis")
        space = " " * (width - cell.cell_len)
        last = place == len(cells) - 1
        if columns[index].right:
            line.append(space)
        line.append_text(cell)
        if not last:
            line.append(("" if columns[index].right else space) + " " * _GAP)
    return line
