"""The golden numbers of the sample logs come out of the store, count by count and token by token."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttrace.config import Settings, ensure_home, load_settings
from agenttrace.record.recorder import Recorder, Summary
from agenttrace.store.sqlite import events
from agenttrace.store.sqlite.usage import usage_rows

REPOSITORY = Path(__file__).resolve().parents[2]
DATA = REPOSITORY / "tests" / "data"
SHARED = REPOSITORY.parent / "shared" / "samples"

#: Where the permitted samples live inside the project.
COPIES = {
    "kimi/generated-kimi-cli-1.49.0": "kimi-cli-1.49.0",
    "kimi/generated-kimi-code-2.1.0": "kimi-code-2.1.0",
    "kimi/kimi-code-migration-fixtures": "kimi-code-migration-fixtures",
    "claude/generated-2.1.197": "claude-code-2.1.197",
    "claude/claude-code-log-testdata": "claude-code-log-testdata",
    "codex/generated-0.166.0": "codex-0.166.0",
}


def _expected() -> dict[str, Any]:
    """The golden numbers: all of them beside the samples, those of the permitted ones inside the project."""
    source = SHARED / "EXPECTED.json"
    if not source.exists():
        source = DATA / "EXPECTED.json"
    found: dict[str, Any] = json.loads(source.read_text())
    return found


def _place(name: str) -> Path:
    """A permitted sample's copy inside the project, a masked real log beside it."""
    for original, copy in COPIES.items():
        if name.startswith(original):
            return DATA / (copy + name.removesuffix("/**").removeprefix(original))
    return SHARED / name.removesuffix("/**")


EXPECTED = _expected()


class Recorded:
    """A store with exactly one sample."""

    def __init__(self, settings: Settings, path: Path) -> None:
        self.recorder = Recorder(settings, paths=[str(path)], environ={})
        self.summary: Summary = self.recorder.run_once()
        self.connection = self.recorder.connection

    def types(self) -> Counter[str]:
        return Counter(dict(self.connection.execute("SELECT event_type, count(*) FROM processed_events GROUP BY 1")))

    def tokens(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for row in usage_rows(self.connection):
            usage = row.usage
            total["input"] += usage.input_tokens
            total["output"] += usage.output_tokens
            total["cache_read"] += usage.cache_read_tokens
            total["cache_write"] += usage.cache_write_tokens
            total["reasoning"] += usage.reasoning_tokens
        return total

    def tools(self) -> Counter[str]:
        rows = self.connection.execute("SELECT status, count(*) FROM spans WHERE kind = 'tool' GROUP BY 1")
        return Counter(dict(rows))


Importer = Callable[[Path], Recorded]


@pytest.fixture
def record(tmp_path: Path) -> Iterator[Importer]:
    opened: list[Recorded] = []

    def import_sample(path: Path) -> Recorded:
        settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / f"home{len(opened)}")})
        ensure_home(settings)
        opened.append(Recorded(settings, path))
        return opened[-1]

    yield import_sample
    for recorded in opened:
        recorded.recorder.close()


def _balanced(summary: Summary) -> bool:
    parts = summary.recorded + summary.duplicate + summary.ignored + summary.quarantined + summary.pending
    return summary.lines == parts


def _named(kind: str) -> list[str]:
    return [name for name in EXPECTED if name.startswith(kind)]


KIMI_CLI = [name for name in _named("kimi/") if "root_usage" in EXPECTED[name]]
KIMI_CODE = [name for name in _named("kimi/") if "usage_record" in EXPECTED[name]]


@pytest.mark.parametrize("name", KIMI_CLI)
def test_kimi_cli(name: str, record: Importer) -> None:
    """Every event of a Kimi CLI wire file is recorded once, and its own usage is what the file says."""
    golden = EXPECTED[name]
    recorded = record(_place(name))
    assert recorded.summary.lines == golden["lines"]
    assert _balanced(recorded.summary)
    assert recorded.summary.duplicate == recorded.summary.quarantined == 0
    assert recorded.types() == Counter(golden["types"])
    usage = Counter(golden["root_usage"])
    mirrored = (_place(name).parent / "subagents").exists()
    if not mirrored:
        usage.update(golden["subagent_usage"])
    assert recorded.tokens() == Counter(
        input=usage["input_other"],
        output=usage["output"],
        cache_read=usage["input_cache_read"],
        cache_write=usage["input_cache_creation"],
    )


@pytest.mark.parametrize("name", KIMI_CODE)
def test_kimi_code(name: str, record: Importer) -> None:
    """Every record of a Kimi Code wire file is recorded once; of its usage mirrors only usage.record counts."""
    golden = EXPECTED[name]
    recorded = record(_place(name))
    assert recorded.summary.lines == golden["lines"]
    assert _balanced(recorded.summary)
    types = recorded.types()
    loops = {kind: types.pop(kind) for kind in list(types) if kind.startswith("context.append_loop_event/")}
    assert Counter({kind.partition("/")[2]: count for kind, count in loops.items()}) == Counter(golden["loop_events"])
    wanted = Counter(golden["types"])
    assert wanted.pop("context.append_loop_event", 0) == sum(loops.values())
    assert wanted.pop("metadata", 0) == recorded.summary.ignored
    assert types == wanted
    usage = Counter(golden["usage_record"])
    assert recorded.tokens() == Counter(
        input=usage["inputOther"],
        output=usage["output"],
        cache_read=usage["inputCacheRead"],
        cache_write=usage["inputCacheCreation"],
    )


@pytest.mark.parametrize("name", _named("codex/"))
def test_codex(name: str, record: Importer) -> None:
    """Every rollout item is recorded once, byte-identical ones too; re-emitted counts and resets are no spend."""
    golden = EXPECTED[name]
    recorded = record(_place(name))
    assert recorded.summary.lines == recorded.summary.recorded == golden["lines"]
    assert recorded.types() == Counter(golden["types"])
    usage = Counter(golden["usage_dedup"])
    assert recorded.tokens() == Counter(
        input=usage["input_tokens"] - usage["cached_input_tokens"],
        output=usage["output_tokens"],
        cache_read=usage["cached_input_tokens"],
        cache_write=usage["cache_write_input_tokens"],
        reasoning=usage["reasoning_output_tokens"],
    )


@pytest.mark.parametrize("name", _named("claude/"))
def test_claude_code(name: str, record: Importer) -> None:
    """A folder of Claude Code logs gives each response's tokens once, however many lines and files repeat them."""
    golden = EXPECTED[name]
    recorded = record(_place(name))
    summary = recorded.summary
    assert summary.files == golden["files"]
    assert summary.lines == golden["lines"]
    assert _balanced(summary)
    assert summary.quarantined == golden["unparsable"]
    usage = Counter(golden["usage_dedup_by_message_id"])
    assert recorded.tokens() == Counter(
        input=usage["input_tokens"],
        output=usage["output_tokens"],
        cache_read=usage["cache_read_input_tokens"],
        cache_write=usage["cache_creation_input_tokens"],
    )
    lines = [json.loads(line.raw) for line in events.raw_lines(recorded.connection)]
    assert len({line["uuid"] for line in lines if line.get("uuid")}) == golden["distinct_uuid"]
    responses = {line["message"]["id"] for line in lines if line.get("type") == "assistant"}
    assert len(responses) == golden["distinct_message_id"]
    assert {line.get("type") for line in lines} - {None} == set(golden["types"]) - {"None"}


def test_codex_review_counts_once(record: Importer) -> None:
    """The review thread's calls, copied into the parent's rollout, are paid for once when both are recorded."""
    folder = SHARED / "codex" / "local-voice-assistant-codex-scrubbed"
    if not folder.exists():
        pytest.skip("the masked real logs are not beside the project")
    names = [name for name in _named("codex/local-voice") if re.search(r"v_20251225T183040", name)]
    assert len(names) == 2
    both = record(folder)
    newest = max(EXPECTED[name]["usage_dedup"]["total_tokens"] for name in _named("codex/local-voice"))
    tokens = both.tokens()
    assert tokens["input"] + tokens["cache_read"] + tokens["output"] == newest


def test_growing_versions_add_up(record: Importer, tmp_path: Path) -> None:
    """Two moments of one rollout, recorded one after the other under one name, equal the later one alone."""
    folder = SHARED / "codex" / "local-voice-assistant-codex-scrubbed"
    if not folder.exists():
        pytest.skip("the masked real logs are not beside the project")
    versions = sorted(folder.glob("rollout-2025-12-25*"))
    log = tmp_path / "logs" / (versions[0].name.partition(".v_")[0] + ".jsonl")
    log.parent.mkdir()
    log.write_bytes(versions[0].read_bytes())
    grown = record(log)
    log.write_bytes(versions[1].read_bytes())
    grown.recorder.scan()
    grown.recorder.drain()
    alone = record(versions[1])
    assert grown.types() == alone.types()
    assert grown.tokens() == alone.tokens()
