"""Logs of every agent, damaged, cut, repeated, in other order and in pieces: nothing breaks, no token counts twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from line_mutations import Mutator

from agenttrace.config import Settings, ensure_home
from agenttrace.record.files.documents import NOT_WHOLE
from agenttrace.record.formats.lenient import MOST_TOKENS
from agenttrace.record.outcomes import session_facts
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.record.texts.model_calls import model_calls
from agenttrace.record.texts.search_index import index_all
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.store.sqlite.database import connect
from agenttrace.store.sqlite.sessions import list_sessions
from agenttrace.store.sqlite.span_rows import stored_rows
from agenttrace.views.outcomes import outcomes_of
from agenttrace.views.requests import request_row
from example_counts import COSTLY
from faults.rig import check_sum
from faults.store_rig import Rows, differences, rows
from format_samples import LOGS, Log, write_lines
from store_on import store_on

NAMES = tuple(LOGS)
#: There is one example for every agent: each has so many of what the profile says.
FEW = settings(COSTLY, max_examples=max(4, COSTLY.max_examples // 5))
#: What is the same however a log was read.
TABLES = ("spans", "responses", "usage_rollup", "sessions")
_OTHERS = [record for logs in LOGS.values() for log in logs[:2] for record in log.records[:8] if len(record) < 4000]


class User:
    """A home directory with logs of an agent, and stores of what was recorded from it."""

    def __init__(self, root: Path) -> None:
        self.root, self.home = root, root / "user"
        self.home.mkdir()

    def settings(self, name: str) -> Settings:
        found = Settings(home=self.root / name)
        ensure_home(found)
        return found

    def recorder(self, store: str) -> Recorder:
        return Recorder(self.settings(store), environ={"HOME": str(self.home)})

    def record(self, store: str) -> Summary:
        with closing(self.recorder(store)) as recorder:
            summary = recorder.run_once()
        check_sum(summary)
        return summary

    def rows(self, store: str) -> Rows:
        found = rows(self.root / store)
        assert not [row for row in found["quarantine"] if "cannot be recorded" in str(row)], found["quarantine"]
        return {table: found[table] for table in TABLES}

    def is_torn(self, store: str) -> bool:
        """Whether a document was set aside because it is not whole."""
        return NOT_WHOLE in str(rows(self.root / store)["quarantine"])

    def usage(self, store: str) -> Counter[tuple[int, ...]]:
        """The tokens of every response that counts."""
        names = ("input", "output", "cache_read", "cache_write", "reasoning")
        query = f"SELECT {', '.join(f'{name}_tokens' for name in names)} FROM responses"
        with closing(connect(self.root / store / "agenttrace.db", read_only=True)) as connection:
            return Counter(connection.execute(query).fetchall())


@contextmanager
def user() -> Iterator[User]:
    with tempfile.TemporaryDirectory() as folder:
        yield User(Path(folder))


@st.composite
def chosen(draw: st.DrawFn, name: str) -> list[Log]:
    """Some logs of an agent: of a database one state of it."""
    logs = LOGS[name]
    if len({log.path for log in logs}) < len(logs):
        return [draw(st.sampled_from(logs))]
    return draw(st.lists(st.sampled_from(logs), min_size=1, max_size=3, unique_by=lambda log: log.path))


#: A fault: what it is, where, and what it is made with.
FAULTS = st.tuples(
    st.sampled_from(("damage", "damage", "number", "number", "remove", "repeat", "move", "glue")),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 2**16),
)


def with_faults(records: list[bytes], faults: list[tuple[str, float, int]]) -> list[bytes]:
    """The records with these faults."""
    found = list(records)
    for kind, part, seed in faults:
        if not found:
            break
        chance, place = random.Random(seed), int(part * len(found))
        mutate = Mutator(chance, _OTHERS)
        if kind == "remove":
            del found[place]
        elif kind == "repeat":
            found.insert(chance.randint(place, len(found)), found[place])
        elif kind == "move":
            found.insert(chance.randrange(len(found)), found.pop(place))
        elif kind == "glue" and place + 1 < len(found):
            found[place : place + 2] = [found[place] + found[place + 1]]
        else:
            found[place] = mutate.number(found[place]) if kind == "number" else mutate(found[place])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_damaged_logs_are_counted_and_their_sums_are_sane(name: str) -> None:
    """No exception, each line counted, tokens that a response can have, and those of other responses as they were."""

    @FEW
    @given(logs=chosen(name), faults=st.lists(FAULTS, min_size=1, max_size=6))
    def check(logs: list[Log], faults: list[tuple[str, float, int]]) -> None:
        with user() as found:
            for log in logs:
                log.put(found.home)
            found.record("whole")
            expected = found.usage("whole")
            shutil.rmtree(found.home)
            for log in logs:
                _settle(log.put(found.home, with_faults(log.records, faults)))
            found.record("damaged")
            usage = found.usage("damaged")
            assert all(0 <= tokens <= 2 * MOST_TOKENS for used in usage for tokens in used)
            # Aider's records are lines of a text, and of a document that is not whole nothing is recorded.
            if name != "aider" and not found.is_torn("damaged"):
                changed = (usage - expected) + (expected - usage)
                # One record tells of at most two responses.
                assert changed.total() <= 4 * len(faults) * len(logs), changed
            found.rows("damaged")
            assert _no_span_ends_before_it_begins(found.root / "damaged")
            _read(found.root / "damaged")

    check()


def _no_span_ends_before_it_begins(home: Path) -> bool:
    with closing(connect(home / "agenttrace.db", read_only=True)) as connection:
        return not connection.execute('SELECT 1 FROM spans WHERE "end" < start').fetchall()


def _read(home: Path) -> None:
    """Texts, the search index, model calls and outcomes of every session."""
    with closing(connect(home / "agenttrace.db")) as connection:
        store = store_on(connection)
        index_all(store)
        for session in list_sessions(connection):
            spans = [row.span_id for row in stored_rows(connection, session.id, attributes=False)]
            SessionTexts().contents(store, session, spans)
            calls = model_calls(store, session).calls
            assert all(size >= 0 for call in calls for size in (*call.parts.values(), call.cache_lost))
            msgspec.json.encode([request_row(number, call) for number, call in enumerate(calls)])
            outcomes = outcomes_of(session, session_facts(store, session), repository=False)
            for file in outcomes.files:
                assert (file.added or 0) >= 0
                assert (file.removed or 0) >= 0


@pytest.mark.parametrize("name", NAMES)
def test_in_pieces_it_is_what_it_is_at_once(name: str) -> None:
    """Recorded while it grows, whole or damaged, by one recorder or by one after the other."""

    @FEW
    @given(
        logs=chosen(name),
        faults=st.lists(FAULTS, max_size=3),
        cuts=st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=4),
    )
    def check(logs: list[Log], faults: list[tuple[str, float, int]], cuts: list[tuple[float, bool]]) -> None:
        log = logs[0]  # which of several files is read first makes a difference of its own
        # The first record says what a log is, also of one that has no other yet.
        records = [*log.records[:1], *with_faults(log.records[1:], faults)]
        with user() as found:
            recorder = found.recorder("pieces")
            for part, restart in sorted(cuts):
                _write_part(found.home, log, records, part)
                recorder.run_once()
                if restart:
                    recorder.close()
                    recorder = found.recorder("pieces")
            path = log.put(found.home, records)
            recorder.run_once()
            recorder.close()
            found.record("pieces")
            _settle(path)
            found.record("pieces")
            found.record("whole")
            if found.is_torn("whole"):
                return  # of a document that is not whole at last, only its pieces were recorded
            assert found.usage("pieces") == found.usage("whole")
            # Rows of two tables are put in order by their times, which damage may change.
            if name != "goose" or not faults:
                assert differences(found.rows("pieces"), found.rows("whole")) == {}

    check()


def _write_part(home: Path, log: Log, records: list[bytes], part: float) -> None:
    """A state of the log while it grew: lines and documents may end anywhere."""
    if log.write is write_lines:
        path = log.put(home, records)
        data = path.read_bytes()
        path.write_bytes(data[: int(part * len(data))])
    else:
        log.put(home, records[: int(part * len(records))])


def _settle(path: Path) -> None:
    """As if it was written some time ago."""
    at = path.stat().st_mtime - 3600
    os.utime(path, (at, at))


@pytest.mark.parametrize("name", NAMES)
def test_twice_and_from_a_copy_it_counts_once(name: str) -> None:
    """Read again with no memory of the file, and from a copy at another path."""

    @FEW
    @given(logs=chosen(name), faults=st.lists(FAULTS, max_size=2))
    def check(logs: list[Log], faults: list[tuple[str, float, int]]) -> None:
        with user() as found:
            for log in logs:
                log.put(found.home, with_faults(log.records, faults))
            found.record("store")
            before, usage = found.rows("store"), found.usage("store")
            with closing(connect(found.root / "store" / "agenttrace.db")) as connection:
                connection.execute("DELETE FROM file_offsets")
            found.record("store")
            assert differences(found.rows("store"), before) == {}
            found.home = Path(shutil.copytree(found.home, found.root / "copy"))
            found.record("store")
            assert found.usage("store") == usage

    check()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["9" * 400, "1e999", "-1", "[" * 600 + "]" * 600])
def test_any_value_in_any_place_can_be_read(name: str, value: str, tmp_path: Path) -> None:
    """Every text of a log is such a value: what is recorded of it can be read."""
    found = User(tmp_path)
    log = max(LOGS[name], key=lambda log: len(log.records))
    if name == "aider":
        return  # it has no values
    records = []
    for record in log.records:
        kept = json.loads(record)
        for place in ("arguments", "args", "input", "rawInput", "rawOutput", "output", "content_json"):
            _replace(kept, place, value)
        records.append(json.dumps(kept).replace(f'"{_PLACE}"', value).encode())
    log.put(found.home, records)
    found.record("store")
    _read(found.root / "store")


_PLACE = "value goes here"


def _replace(value: object, name: str, text: str) -> None:
    """Put a value into all fields of this name; one that is JSON in a text stays so."""
    if isinstance(value, list):
        for each in value:
            _replace(each, name, text)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key == name:
                value[key] = {"number": _PLACE}
            elif isinstance(each, str) and each.startswith(("[{", "{")):
                inner = json.loads(each) if _is_json(each) else each
                _replace(inner, name, text)
                if inner is not each:
                    value[key] = json.dumps(inner).replace(f'"{_PLACE}"', text)
            else:
                _replace(each, name, text)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
