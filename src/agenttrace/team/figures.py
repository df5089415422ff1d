"""The level ``figures``: rows without anything that was said, named or typed.

Every text that is left is a word of a closed list: agents and models that AgentTrace knows, names of usual tools,
states. Every other name is a keyed hash: the same name has the same hash on this machine, and without the machine's key
it cannot be looked up. Texts, titles, paths, notes and raw lines are not sent at all.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable

import msgspec

from agenttrace.ids import session_number
from agenttrace.model import Session
from agenttrace.prices.table import FAST, PEAK, PriceTable
from agenttrace.store.questions import MAIN_STREAM, NOT_IN_LOG, TELEMETRY
from agenttrace.store.rows import (
    LinkRow,
    RemovedRow,
    ResponseRow,
    Row,
    StoredSession,
    StoredSpan,
    TotalRow,
)
from agenttrace.store.totals import SCOPES

#: Streams, and scopes and owners of totals, that AgentTrace names itself.
_OWN_WORDS = frozenset({"", MAIN_STREAM, NOT_IN_LOG, TELEMETRY}) | SCOPES
#: Tools that come with the agents; others may be named after products and customers.
_TOOLS = frozenset(
    {
        *("Agent", "AskUserQuestion", "Bash", "BashOutput", "Edit", "ExitPlanMode", "Fetch", "Find", "Glob", "Grep"),
        *("KillShell", "LS", "List", "MultiEdit", "NotebookEdit", "NotebookRead", "Read", "ReadFile", "Replace"),
        *("Search", "Shell", "Skill", "StrReplaceFile", "Task", "TaskCreate", "TaskOutput", "TaskUpdate", "Think"),
        *("TodoRead", "TodoWrite", "ToolSearch", "WebFetch", "WebSearch", "Write", "WriteFile", "apply_patch", "bash"),
        *("browser", "edit", "exec_command", "execute_command", "fetch", "find", "glob", "google_web_search", "grep"),
        *("list", "list_dir", "list_directory", "list_files", "local_shell", "ls", "multiedit", "patch", "read"),
        *(
            "read_file",
            "read_many_files",
            "replace",
            "run_shell_command",
            "save_memory",
            "search",
            "search_file_content",
        ),
        *("search_files", "shell", "task", "todo_write", "todoread", "todowrite", "update_plan", "view_image"),
        *("web_fetch", "web_search", "webfetch", "websearch", "write", "write_file", "write_stdin", "write_to_file"),
    }
)
#: How a call ended, as providers say it; whose work a turn was; why a span was closed.
_WORDS = frozenset(
    {
        *("stop", "length", "tool_calls", "tool_use", "end_turn", "max_tokens", "stop_sequence", "content_filter"),
        *("refusal", "pause_turn", "completed", "error", "cancelled", "user", "agent", "subagent", "system", "hook"),
    }
)
_WORD_FIELDS = ("finish_reason", "origin", "closed_by")
_FLAGS = ("subagent",)
_NUMBERS = ("duration", "tokens", "attempt")
_VERSION = re.compile(r"\d{1,5}(\.\d{1,5}){0,3}")
_HASH_CHARS = 16
#: The states of sessions and spans, and the kinds of spans.
_STATES = frozenset({"working", "waiting", "ended", "interrupted", "open", "ok", "error", "cancelled", "unclosed"})
_KINDS = frozenset({"turn", "step", "tool", "span"})
_SPAN_NAMES = {"turn": "turn", "step": "step", "tool": "tool"}


class Figures:
    """Reduces rows of one machine to figures; ``names`` gives agent and id of sessions by number."""

    def __init__(
        self,
        key: bytes,
        names: Callable[[int], tuple[str, str] | None],
        *,
        agents: Collection[str],
        prices: PriceTable,
    ) -> None:
        self._key = key
        self._names = names
        self._agents = frozenset(agents)
        self._prices = prices
        self._terms = frozenset({FAST, PEAK, *(place for price in prices.shipped for place in price.places)})

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that have figures, without all else."""
        found = (self._row(row) for row in rows)
        return [row for row in found if row is not None]

    def _row(self, row: Row) -> Row | None:
        match row:
            case StoredSession():
                return StoredSession(self.session(row.session), row.revision)
            case StoredSpan():
                return self._span(row)
            case LinkRow():
                return self._named(row, "stream", "parent_stream", "call")
            case ResponseRow():
                terms = " ".join(term for term in row.terms.split() if term in self._terms)
                return self._named(msgspec.structs.replace(row, terms=terms), "model")
            case TotalRow():
                return self._total(row)
            case RemovedRow():
                return self._removed(row)
        return None

    def session(self, session: Session) -> Session:
        """A session with its counts, times and state."""
        agent = self._agent(session.agent)
        session_id = self._hash("session", f"{session.agent}\x1f{session.session_id}")
        parent = session.parent and self._hash("session", f"{session.agent}\x1f{session.parent}")
        known = session.version is not None and _VERSION.fullmatch(session.version) is not None
        return msgspec.structs.replace(
            session,
            id=session_number(agent, session_id),
            agent=agent,
            session_id=session_id,
            project=session.project and self._hash("project", session.project),
            branch=session.branch and self._hash("branch", session.branch),
            title=None,
            first_prompt=None,
            version=session.version if known else None,
            model=session.model and self._model(session.model),
            parent=parent or None,
            state=session.state if session.state in _STATES else "ended",
            machine=None,
            person=None,
        )

    def number(self, session: int) -> int:
        """The number that a session has outside; one that is not known here any more has none that is used."""
        name = self._names(session)
        if name is None:
            return int.from_bytes(self._digest("number", str(session).encode())[:6], "big")
        agent, session_id = name
        return session_number(self._agent(agent), self._hash("session", f"{agent}\x1f{session_id}"))

    def _span(self, row: StoredSpan) -> StoredSpan:
        tool = row.name if row.kind == "tool" else ""
        model = row.model and self._model(row.model)
        kind = row.kind if row.kind in _KINDS else "span"
        return msgspec.structs.replace(
            row,
            span_id=self._id(row.span_id),
            trace_id=self._id(row.trace_id),
            parent_id=row.parent_id and self._id(row.parent_id),
            session=self.number(row.session),
            stream=self._stream(row.stream),
            kind=kind,
            name=self._tool(tool) if tool else _SPAN_NAMES.get(kind, "span"),
            status=row.status if row.status in _STATES else "unclosed",
            model=model,
            attributes=self._attributes(row.attributes),
        )

    def _attributes(self, text: str | None) -> str | None:
        try:
            given = msgspec.json.decode(text or "{}", type=dict[str, object])
        except (msgspec.DecodeError, RecursionError):
            return None
        words = ((name, given.get(name)) for name in _WORD_FIELDS)
        found: dict[str, object] = {name: word for name, word in words if isinstance(word, str) and word in _WORDS}
        found |= {name: True for name in _FLAGS if given.get(name) is True}
        for name in _NUMBERS:
            value = given.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                found[name] = value
        if isinstance(given.get("tool"), str):
            found["tool"] = self._tool(str(given["tool"]))
        if isinstance(given.get("call"), str):
            found["call"] = self._hash("call", str(given["call"]))
        return msgspec.json.encode(found).decode() if found else None

    def _total(self, row: TotalRow) -> Row:
        hashed = {name: self._own(getattr(row, name)) for name in ("scope", "whose", "name")}
        row = msgspec.structs.replace(
            row, trace_id=self._id(row.trace_id), parent_id=row.parent_id and self._id(row.parent_id), **hashed
        )
        return self._named(row, "model")

    def _removed(self, row: RemovedRow) -> RemovedRow:
        session = self.number(row.session) if row.session else 0
        key = self._id(row.key) if row.kind == "span" else row.key
        return msgspec.structs.replace(row, session=session, key=key)

    def _named(self, row: Row, *names: str) -> Row:
        """The row under its number outside, with these fields hashed."""
        ways: dict[str, Callable[[str], str]] = {
            "stream": self._stream,
            "parent_stream": self._stream,
            # A workflow's agents name its run, which is a stream, where others name a call.
            "call": lambda call: self._hash("call", call),
            "model": self._model,
        }
        changed: dict[str, object] = {name: ways[name](getattr(row, name)) for name in names}
        session = getattr(row, "session", None)
        if isinstance(session, int):
            changed["session"] = self.number(session)
        return msgspec.structs.replace(row, **changed)

    # -- names ------------------------------------------------------------------------------------------------

    def _agent(self, name: str) -> str:
        return name if name in self._agents else f"agent-{self._hash('agent', name)}"

    def _tool(self, name: str) -> str:
        return name if name in _TOOLS else f"tool-{self._hash('tool', name)}"

    def _model(self, name: str) -> str:
        found = self._prices.find(name)
        if found.periods and found.origin != "settings":
            return found.periods[0].model.removesuffix("*")
        return name if name == "unknown" else f"model-{self._hash('model', name)}"

    def _stream(self, name: str) -> str:
        return name if name in _OWN_WORDS else self._hash("call", name)

    def _own(self, name: str) -> str:
        return name if name in _OWN_WORDS else self._hash("total", name)

    def _hash(self, kind: str, name: str) -> str:
        return self._digest(kind, name.encode("utf-8", "surrogatepass")).hex()[:_HASH_CHARS]

    def _id(self, given: bytes) -> bytes:
        """An id of the same length; ids are hashes of names in the log, which might be guessed."""
        return self._digest("id", given)[: len(given)]

    def _digest(self, kind: str, name: bytes) -> bytes:
        return hashlib.blake2b(kind.encode() + b"\0" + name, key=self._key, digest_size=32).digest()
