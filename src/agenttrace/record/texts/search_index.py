"""Filling the search index from the raw lines, after recording; resumable at any line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agenttrace.record.formats.contract import Content
from agenttrace.record.texts.contents import Interpreter

if TYPE_CHECKING:
    from agenttrace.store.sqlite.store import SqliteStore

#: Of one piece of text, this much is indexed: conversations nearly whole, of long tool outputs beginning and end.
INDEXED_CHARACTERS = 8_000
INDEXED_OF_RESULTS = 1_500
_PORTION = 5_000


def index_portion(store: SqliteStore, interpreter: Interpreter) -> int:
    """Index the next events; 0 when there are none left."""
    start = store.search_index.position
    texts, last, count = [], start, 0
    for line in store.lines(after=start, limit=_PORTION):
        count += 1
        last = line.event_no
        said = interpreter.said(line)
        if said is not None and said.contents:
            texts.append((line.event_no, "\n".join(map(_indexed, said.contents))))
    if count:
        store.search_index.add(texts, after=start, last=last)
    return count


def _indexed(content: Content) -> str:
    text = content.text
    if content.kind in ("result", "thinking") and len(text) > 2 * INDEXED_OF_RESULTS:
        return f"{text[:INDEXED_OF_RESULTS]}\n{text[-INDEXED_OF_RESULTS:]}"
    return text[:INDEXED_CHARACTERS]


def index_all(
    store: SqliteStore, *, stop: Callable[[], bool] = lambda: False, on_progress: Callable[[int], None] = lambda _: None
) -> int:
    """Index everything that is pending; ``on_progress`` gets the number of events of each portion."""
    interpreter, total = Interpreter(store), 0
    while not stop() and (count := index_portion(store, interpreter)):
        total += count
        on_progress(count)
    return total
