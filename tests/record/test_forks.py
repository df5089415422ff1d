"""Forks made of real logs as their agents make them: what they copied counts in the session that it was said in."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttrace.config import Settings, ensure_home
from agenttrace.record.recorder import Recorder
from agenttrace.store.sqlite.database import connect
from example_counts import COSTLY
from format_samples import DATA, LOGS, Log

FORK = "f0f0f0f0-0000-4000-8000-000000000001"
#: Later than all samples.
LATER, LATER_MS = "2026-11-17T00:00:00.000Z", 1_794_873_600_000
FEW = settings(COSTLY, max_examples=max(6, COSTLY.max_examples // 4))
#: The tokens of the sessions that have any.
BY_SESSION = """
    SELECT sessions.session_id, sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_write_tokens)
    FROM usage_rollup JOIN sessions ON sessions.id = usage_rollup.session_id GROUP BY 1
"""
Fork = Callable[[Log, int], Log]


def _values(log: Log) -> list[dict[str, Any]]:
    return [json.loads(record) for record in log.records]


def _dumped(values: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def _copilot(log: Log, cut: int) -> Log:
    """``/fork``: the same lines under a new session, then a word about it."""
    start, *rest = _values(log)
    own = start["data"]["sessionId"]
    start = {**start, "timestamp": LATER, "data": {**start["data"], "sessionId": FORK}}
    words = f'Forked from "x" ({own}) as "y" ({FORK}).'
    told = [("session.info", {"infoType": "fork", "message": words}), ("session.resume", {"resumeTime": LATER})]
    ends = [
        {"type": kind, "data": data, "id": str(uuid5(UUID(FORK), kind)), "timestamp": LATER, "parentId": None}
        for kind, data in told
    ]
    return log._replace(path=log.path.replace(own, FORK), records=_dumped([start, *rest[:cut], *ends]), beside=())


def _pi(log: Log, cut: int) -> Log:
    """``--fork <file>``: the same entries under a header that names the file."""
    header, *rest = _values(log)
    own = header["id"]
    header = {**header, "id": FORK, "timestamp": LATER, "parentSession": f"/home/dev/{log.path}"}
    return log._replace(path=log.path.replace(own, FORK), records=_dumped([header, *rest[:cut]]))


def _claude(log: Log, cut: int) -> Log:
    """``--fork-session``: the new prompt is put in a queue, then lines of the conversation with the same uuids."""
    own = Path(log.path).stem
    queued = {"type": "queue-operation", "operation": "enqueue", "timestamp": LATER, "sessionId": FORK, "content": "x"}
    lines = [value for value in _values(log)[:cut] if "uuid" in value]
    copies = [value | {"sessionId": FORK} for value in lines]
    return log._replace(path=log.path.replace(own, FORK), records=_dumped([queued, *copies]))


def _qwen(log: Log, cut: int) -> Log:
    """``--fork-session``: lines with new uuids that name those they were made of."""
    own = Path(log.path).stem

    def named(uuid: str | None) -> str | None:
        return None if uuid is None else str(uuid5(UUID(FORK), uuid))

    copies = [
        value
        | {"uuid": named(value["uuid"]), "parentUuid": named(value.get("parentUuid")), "sessionId": FORK}
        | {"forkedFrom": {"sessionId": own, "messageUuid": value["uuid"]}}
        for value in _values(log)[:cut]
    ]
    return log._replace(path=log.path.replace(own, FORK), records=_dumped(copies))


def _continue(log: Log, cut: int) -> Log:
    """``--fork <sid>``: a document with the same history."""
    own = Path(log.path).stem

    def write(path: Path, records: list[bytes]) -> None:
        log.write(path, records)
        path.write_bytes(path.read_bytes().replace(own.encode(), FORK.encode()))

    return log._replace(path=log.path.replace(own, FORK), records=log.records[:cut], write=write)


def _opencode(log: Log, cut: int) -> Log:
    """``--fork``: the last state of messages and parts with new ids, in a session without a parent."""
    rows = _values(log)
    session = rows[0]["aggregate_id"]
    created = rows[0]["data"]
    latest: dict[str, dict[str, Any]] = {}
    for row in [row for row in rows if row["aggregate_id"] == session][:cut]:
        name = row["data"].get("part", row["data"].get("info", {})).get("id")
        if row["type"].startswith("message."):
            latest[name] = row
    info = {**created["info"], "id": "ses_fork", "title": "x (fork #1)", "time": {"created": LATER_MS}}
    copies = [{**rows[0], "data": {"sessionID": "ses_fork", "info": info}}]
    for row in latest.values():
        text = (
            json.dumps(row["data"]).replace(session, "ses_fork").replace('"msg_', '"msg_f').replace('"prt_', '"prt_f')
        )
        copies.append({**row, "data": json.loads(text)})
    for number, copy in enumerate(copies):
        copy |= {"aggregate_id": "ses_fork", "seq": number, "id": f"evt_fork_{number}"}
    return log._replace(records=_dumped(copies))


def _grok(log: Log, cut: int) -> Log:
    """A copy of the updates in another directory."""
    ((_, summary),) = log.beside
    own = Path(log.path).parent.name
    assert isinstance(summary, bytes)
    beside = (
        (
            str(Path(log.path.replace(own, FORK)).with_name("summary.json")),
            summary.replace(own.encode(), FORK.encode()),
        ),
    )
    return Log(log.path.replace(own, FORK), log.records[:cut], log.write, beside)


FORKS: dict[str, Fork] = {
    "claude-code": _claude,
    "continue": _continue,
    "copilot-cli": _copilot,
    "grok": _grok,
    "kilo": _opencode,
    "opencode": _opencode,
    "pi": _pi,
    "qwen-code": _qwen,
}


def _sessions(name: str) -> list[Log]:
    """Logs of whole sessions: not of subagents, and no forks."""
    found = []
    for log in LOGS[name]:
        text = b"".join(log.records)
        forked = b"parentSession" in text or b"forkedFrom" in text or b'"infoType":"fork"' in text or b"(fork #" in text
        helper = "subagents" in log.path or b"subagent)" in text
        if not forked and not helper:
            found.append(log)
    assert found
    return found


def _recorded(home: Path, store: Path) -> dict[str, tuple[int, ...]]:
    settings = Settings(home=store)
    ensure_home(settings)
    with closing(Recorder(settings, environ={"HOME": str(home)})) as recorder:
        assert recorder.run_once().quarantined == 0
    with closing(connect(store / "agenttrace.db", read_only=True)) as connection:
        return {session: tuple(tokens) for session, *tokens in connection.execute(BY_SESSION)}


@pytest.mark.parametrize("name", FORKS)
def test_what_a_fork_copied_counts_in_the_original(name: str) -> None:
    """Forked anywhere, and whichever of the two is read first."""

    @FEW
    @given(
        log=st.sampled_from(_sessions(name)), part=st.floats(0, 1), first=st.sampled_from(("fork", "original", "both"))
    )
    def check(log: Log, part: float, first: str) -> None:
        fork = FORKS[name](log, round(part * len(log.records)))
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            log.put(root / "alone")
            expected = _recorded(root / "alone", root / "one")
            home = root / "home"
            if fork.path == log.path:  # rows of one database
                records = [log.records, fork.records] if first != "fork" else [fork.records, log.records]
                log.put(home, records[0] if first != "both" else records[0] + records[1])
                _recorded(home, root / "two")
                log.put(home, records[0] + records[1])
            else:
                for each in {"fork": [fork], "original": [log], "both": [fork, log]}[first]:
                    each.put(home)
                _recorded(home, root / "two")
                fork.put(home)
                log.put(home)
            assert _recorded(home, root / "two") == expected

    check()


@pytest.mark.parametrize("name", FORKS)
def test_the_sample_with_its_forks_in_any_order(name: str) -> None:
    """The forks that the agents made themselves, read before and after their originals."""
    found = []
    for backwards in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder) / "home"
            logs = [log for log in LOGS[name] if LOGS[name][0].path != log.path or log is LOGS[name][0]]
            for log in reversed(logs) if backwards else logs:
                log.put(home)
                sums = _recorded(home, Path(folder) / "store")
            found.append(sums)
    assert found[0] == found[1]


# -- what the agents count themselves ----------------------------------------------------------------------------------

_TOLD = """
    SELECT DISTINCT hex(r.response), input_tokens, cache_read_tokens, cache_write_tokens, output_tokens
    FROM spans JOIN responses r ON r.response = spans.response JOIN sessions ON sessions.id = spans.session_id
    WHERE sessions.session_id = ?
"""


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The store of a sample."""
    made: dict[str, Path] = {}

    def store(sample: str) -> Path:
        if sample not in made:
            made[sample] = tmp_path_factory.mktemp("store")
            _recorded(DATA / sample, made[sample])
        return made[sample] / "agenttrace.db"

    return store


def _shown(store: Path, session: str, query: str = _TOLD) -> Counter[str]:
    """The tokens of all calls that a session shows, copies too."""
    with closing(connect(store, read_only=True)) as connection:
        rows = connection.execute(query, (session,)).fetchall()
    names = ("input", "read", "written", "output")
    return Counter({name: sum(row[place + 1] for row in rows) for place, name in enumerate(names)})


def test_copilots_shutdown_totals(stores: Callable[[str], Path]) -> None:
    """The last one of a session is all that it shows, but for compactions and what a killed process used."""
    checked = 0
    for path in (DATA / "copilot-1.0.102").rglob("events.jsonl"):
        lines = [json.loads(raw) for raw in path.read_bytes().splitlines()]
        ends = [line["data"]["modelMetrics"] for line in lines if line["type"] == "session.shutdown"]
        if not ends:
            continue
        total: Counter[str] = Counter()
        for metrics in ends[-1].values():
            usage = metrics["usage"]
            read, written = usage["cacheReadTokens"], usage["cacheWriteTokens"]
            fresh = usage["inputTokens"] - read - written
            total.update(input=fresh, read=read, written=written, output=usage["outputTokens"])
        for line in lines:
            used = line["data"].get("compactionTokensUsed")
            if used:
                read, written = used["cacheReadTokens"], used["cacheWriteTokens"]
                fresh = used["inputTokens"] - read - written
                total.update(input=fresh, read=read, written=written, output=used["outputTokens"])
        assert _shown(stores("copilot-1.0.102"), path.parent.name) == total, path.parent.name
        checked += 1
    assert checked > 8


def test_opencodes_session_totals(stores: Callable[[str], Path]) -> None:
    """What a session says last of itself: its own calls, and those that it copied."""
    last: dict[str, dict[str, Any]] = {}
    parents: dict[str, str] = {}
    for raw in (DATA / "opencode-1.18.33" / "events.dump.jsonl").read_bytes().splitlines():
        event = json.loads(raw)
        data = event["data"] if isinstance(event["data"], dict) else json.loads(event["data"])
        if event["type"].startswith("session."):
            last[event["aggregate_id"]] = data["info"]
            if data["info"].get("parentID"):
                parents[event["aggregate_id"]] = data["info"]["parentID"]
    assert parents
    totals: dict[str, Counter[str]] = {}
    for session, info in last.items():
        tokens = info["tokens"]
        cache, output = tokens["cache"], tokens["output"] + tokens["reasoning"]
        used = Counter(input=tokens["input"], read=cache["read"], written=cache["write"], output=output)
        totals.setdefault(parents.get(session, session), Counter()).update(used)
    for session, total in totals.items():
        assert +_shown(stores("opencode-1.18.33"), session) == +total, session


@pytest.mark.parametrize(
    ("sample", "pattern", "totals"),
    [
        (
            "pi-0.87.1",
            ".pi/agent/sessions/**/*.jsonl",
            lambda line: line.get("message", {}).get("usage", {}).get("totalTokens"),
        ),
        ("gemini-cli-0.61.0", ".gemini/tmp/**/*.jsonl", lambda line: (line.get("tokens") or {}).get("total")),
    ],
)
def test_totals_of_single_calls(
    sample: str, pattern: str, totals: Callable[[dict[str, Any]], int | None], stores: Callable[[str], Path]
) -> None:
    """Pi and Gemini CLI write the sum of a call's tokens beside its kinds: the same sums, each call once."""
    told: dict[str, int] = {}
    for path in (DATA / sample).glob(pattern):
        for line in map(json.loads, path.read_bytes().splitlines()):
            total = totals(line)
            if total:
                told[line.get("message", {}).get("responseId") or line["id"]] = total
    with closing(connect(stores(sample), read_only=True)) as connection:
        query = "SELECT input_tokens + output_tokens + cache_read_tokens + cache_write_tokens FROM responses"
        found = Counter(row[0] for row in connection.execute(query) if row[0])
    assert found == Counter(told.values())
