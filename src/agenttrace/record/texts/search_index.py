"""Filling the search index from the raw lines, after recording; resumable at any line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from agenttrace.record.formats.contract import Content
from agenttrace.record.texts.contents import Interpreter

if TYPE_CHECKING:
    from agenttrace.store.questions import EventLine
    from agenttrace.store.store import Store

#: Of one piece of text, this much is indexed: conversations nearly whole, of long tool outputs beginning and end.
INDEXED_CHARACTERS = 8_000
INDEXED_OF_RESULTS = 1_500
_PORTION = 5_000


def index_portion(store: Store, interpreter: Interpreter) -> int:
    """Index the next events; 0 when there are none left."""
    index = store.search_index
    start = index.position
    if texts := list(_texts(interpreter, store.lines(after=start, limit=_PORTION))):
        index.add(texts, after=start, last=texts[-1][0])
        return len(texts)
    late = index.late(_PORTION)
    index.add_late(_texts(interpreter, store.lines_by_number(late)), late)
    return len(late)


def _texts(interpreter: Interpreter, lines: Iterable[EventLine]) -> Iterator[tuple[int, str]]:
    """Number and text of each line; the text is empty where there is nothing to index."""
    for line in lines:
        said = interpreter.said(line)
        yield line.event_no, "\n".join(map(_indexed, said.contents)) if said is not None else ""


def _indexed(content: Content) -> str:
    text = content.text
    if content.kind in ("result", "thinking") and len(text) > 2 * INDEXED_OF_RESULTS:
        return f"{text[:INDEXED_OF_RESULTS]}\n{text[-INDEXED_OF_RESULTS:]}"
    return text[:INDEXED_CHARACTERS]


def index_all(
    store: Store, *, stop: Callable[[], bool] = lambda: False, on_progress: Callable[[int], None] = lambda _: None
) -> int:
    """Index everything that is pending; ``on_progress`` gets the number of events of each portion."""
    interpreter, total = Interpreter(store), 0
    while not stop() and (count := index_portion(store, interpreter)):
        total += count
        on_progress(count)
    return total
