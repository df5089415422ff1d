"""Whether an agent may go on: budgets as ``guard_state.py`` wrote them, and what a hook says of its session.

A hook waits for this at every tool call, so only what loads at once is imported, and the store is not opened: a file
has the budgets. It is written anew when the store, the settings or the period has changed.
"""

from __future__ import annotations

import os
from contextlib import suppress

from agenttrace.rules import state_files

TYPE_CHECKING = False  # ``typing`` takes longer to load than all the rest
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

VERSION = 2
#: The state of a store that has changed since is used for so many seconds, while it is made anew beside.
_USABLE_SECONDS = 60.0
#: It is made anew at most once in so many seconds.
_REFRESH_SECONDS = 5.0
#: From here on an agent is refused.
HARD = 1.0
_ALLOWED_BYTES = 65_536
_ID_CHARS = 120


class Call:
    """What a hook says of its session."""

    def __init__(self, agent: str, said: object) -> None:
        fields = said if isinstance(said, dict) else {}
        self.agent = agent
        self.event = _text(fields, "hook_event_name", "hookEventName")
        self.session = _text(fields, "session_id", "sessionId", "conversation_id", "sessionID")
        self.directory = _text(fields, "cwd", "directory")
        self.transcript = _text(fields, "transcript_path", "transcriptPath")
        model = fields.get("model")
        self.model = _text(model, "id") if isinstance(model, dict) else _text(fields, "model")


class Verdict:
    """``go``, ``warn`` or ``refuse``, with a sentence for each budget that says so."""

    def __init__(self, kind: str, reasons: Iterable[str] = ()) -> None:
        self.kind = kind
        self.reasons = list(reasons)

    @property
    def text(self) -> str:
        """For people, and for the model."""
        return "\n".join(self.reasons)


# -- the state ----------------------------------------------------------------------------------------------------


def state_path(home: str) -> str:
    """The file of the state."""
    return os.path.join(home, "guard", "state.json")


def stamp(path: str) -> list[int]:
    """What changes when a file does; empty where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]


def store_stamp(home: str) -> list[list[int]]:
    """What changes when something is recorded."""
    return [stamp(os.path.join(home, name)) for name in ("agenttrace.db", "agenttrace.db-wal")]


def freshness(state: object, home: str, now: float) -> str:
    """``current``; ``changed`` where the store has changed since; ``invalid`` where nothing of it can be used."""
    if not isinstance(state, dict) or state.get("version") != VERSION or not isinstance(state.get("files"), dict):
        return "invalid"
    if any(stamp(path) != known for path, known in state["files"].items()) or now >= state["until"]:
        return "invalid"
    if now < state["written_at"] - 1:
        return "invalid"  # the clock was set back
    if state["idle"] or state["store"] == store_stamp(home):
        return "current"
    return "changed"


def usable(state: dict[str, Any], now: float) -> bool:
    """Whether a state of a store that has changed since is recent enough to decide by it."""
    age: float = now - state["written_at"]
    return 0 <= age <= _USABLE_SECONDS


def has_grown(call: Call, state: Mapping[str, Any]) -> bool:
    """Whether the log of a session was written to since: nothing may record, so the store does not show it."""
    if state["idle"] or call.transcript is None:
        return False
    try:
        written: float = os.stat(call.transcript).st_mtime
    except OSError:
        return False
    return written > float(state["written_at"])


def refresh_is_due(state: object, home: str, now: float) -> bool:
    """Whether to make the state anew beside; not if another process has just begun to."""
    begun = 0.0
    with suppress(OSError):
        begun = os.stat(lock_path(home)).st_mtime
    written = float(state["written_at"]) if isinstance(state, dict) and "written_at" in state else 0.0
    return now - max(written, begun) >= _REFRESH_SECONDS


def write_failed(home: str, file: str, seconds: float, now: float) -> None:
    """Write a state without budgets: what failed is not tried at every call, but after this time, or once mended."""
    files = {file: stamp(file)}
    state = {"version": VERSION, "written_at": now, "until": now + seconds, "files": files, "idle": True}
    state_files.write_json(state_path(home), {**state, "store": [], "budgets": [], "sessions": {}})


def lock_path(home: str) -> str:
    """The file that is locked while the state is made anew, and changes when that begins."""
    return os.path.join(home, "guard", "refresh.lock")


# -- the decision -------------------------------------------------------------------------------------------------


def decide(state: Mapping[str, Any], call: Call, allowed: Mapping[str, float], now: float) -> tuple[Verdict, list[str]]:
    """The verdict, and the names of its warnings, each of which is for a session once."""
    known = known_session(state, call)
    refusals, warnings, keys = [], [], []
    for budget in state["budgets"]:
        concerned = concerns(budget, call, known)
        if concerned is None:
            continue
        lifted = max(allowed.get("", 0.0), allowed.get(budget["name"], 0.0)) > now
        share = budget["share"]
        if share is not None and share >= HARD and concerned and not lifted:
            refusals.append(_refusal(budget))
            continue
        threshold = "problem" if share is None else max(budget["crossed"], default=None)
        if threshold is not None:
            warnings.append(_warning(budget, lifted=lifted and share is not None and share >= HARD))
            keys.append(f"{budget['name']}-{budget['place']}-{threshold}-{call.agent}-{call.session}")
    if refusals:
        return Verdict("refuse", refusals), []
    return (Verdict("warn", warnings), keys) if warnings else (Verdict("go"), [])


def known_session(state: Mapping[str, Any], call: Call) -> Mapping[str, Any]:
    """What is recorded of the session of a hook; nothing where it is new."""
    found: Mapping[str, Any] = state["sessions"].get(f"{call.agent} {call.session}", {})
    return found


def concerns(budget: Mapping[str, Any], call: Call, known: Mapping[str, Any]) -> bool | None:
    """Whether a budget is about this session; ``None``: no. False: perhaps, so it warns and refuses nothing."""
    if budget["session"] is not None:
        return True if (call.agent, call.session) == (budget["agent"], budget["session"]) else None
    if budget["agents"] and call.agent not in budget["agents"]:
        return None
    if budget["projects"]:
        from agenttrace.projects import project_matches

        if not project_matches(known.get("project") or call.directory, budget["projects"]):
            return None
    if not (
        _is_one_of(known.get("machine"), budget["machines"]) and _is_one_of(known.get("person"), budget["persons"])
    ):
        return None
    model = call.model or known.get("model")
    if budget["models"] and model is None:
        return False
    return True if _is_one_of(model, budget["models"]) else None


def _is_one_of(name: str | None, globs: Sequence[str]) -> bool:
    if not globs:
        return True
    from fnmatch import fnmatchcase

    return name is not None and any(fnmatchcase(name, glob) for glob in globs)


def _refusal(budget: Mapping[str, Any]) -> str:
    until = f" Refused until {budget['ends']}." if budget["ends"] else ""
    return (
        f"AgentTrace: budget {budget['name']} is used up: {budget['text']}.{until} "
        f"To go on anyway: agenttrace guard --allow 1h (it is recorded), "
        f"or raise [budgets.{budget['name']}] in agenttrace.toml."
    )


def _warning(budget: Mapping[str, Any], *, lifted: bool) -> str:
    if budget["share"] is None:
        return f"AgentTrace: budget {budget['name']} cannot be computed: {budget['problem']}."
    over = "is used up, and allowed for now" if lifted else f"is at {budget['share'] * 100:.0f}%"
    return f"AgentTrace: budget {budget['name']} {over}: {budget['text']}."


# -- what the user allowed, and what was said -------------------------------------------------------------------------


def allowed_path(home: str) -> str:
    """The file with a line for each time that the user let agents go on."""
    return os.path.join(home, "guard", "allowed.jsonl")


def allowances(home: str) -> dict[str, float]:
    """Until when budgets refuse nothing, by name; the empty name is all of them. Later lines replace earlier ones."""
    import json

    found: dict[str, float] = {}
    with suppress(OSError):
        with open(allowed_path(home), "rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _ALLOWED_BYTES))
            lines = stream.read().splitlines()
        for line in lines:
            with suppress(ValueError, TypeError, KeyError):
                given = json.loads(line)
                if given["budget"] == "":
                    found.clear()
                found[str(given["budget"])] = float(given["until"])
    return found


def first_time(home: str, key: str) -> bool:
    """Whether a warning was not given before; several hooks may ask at once."""
    name = "".join(char if char.isalnum() or char in "-_." else "_" for char in key)
    directory = os.path.join(home, "guard", "warned")
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        os.close(os.open(os.path.join(directory, name[:200]), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def _text(fields: object, *names: str) -> str | None:
    for name in names:
        value = fields.get(name) if isinstance(fields, dict) else None
        if isinstance(value, str) and value:
            return value[: _ID_CHARS if "ession" in name else 4096]
    return None


def read_state(home: str) -> Any:  # noqa: ANN401 - JSON
    """The state as it was last written."""
    return state_files.read_json(state_path(home))
