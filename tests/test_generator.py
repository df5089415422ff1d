"""The generator of benchmark logs: what it says it wrote is what the files hold."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("benchmarks are not part of a source distribution", allow_module_level=True)
sys.path.insert(0, str(ROOT))

from benchmarks.generate import generate_claude, generate_lines  # noqa: E402 - found by the line above
from benchmarks.truth import Truth  # noqa: E402 - found by the line above

Json = dict[str, Any]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """Two megabytes, large enough for forks and subagents with this seed."""
    target = tmp_path_factory.mktemp("corpus")
    return target, generate_claude(target, 2, seed=17)


def _lines(target: Path) -> Iterator[tuple[Path, Json]]:
    for path in sorted(target.rglob("*.jsonl")):
        for raw in path.read_bytes().splitlines():
            yield path, json.loads(raw)


def test_truth_counts_files_lines_and_bytes(corpus: tuple[Path, Truth]) -> None:
    """Files, sessions, subagents, lines and bytes are those on the disk."""
    target, truth = corpus
    paths = list(target.rglob("*.jsonl"))
    subagents = [path for path in paths if path.parent.name == "subagents"]
    assert truth.files == len(paths)
    assert truth.subagents == len(subagents) == len(list(target.rglob("*.meta.json"))) > 0
    assert truth.sessions == len(paths) - len(subagents) == len({line["sessionId"] for _, line in _named(target)})
    assert truth.lines == sum(1 for _ in _lines(target))
    assert truth.bytes == sum(path.stat().st_size for path in paths) >= 2_000_000


def _named(target: Path) -> Iterator[tuple[Path, Json]]:
    return ((path, line) for path, line in _lines(target) if "sessionId" in line)


def test_truth_counts_every_response_once(corpus: tuple[Path, Truth]) -> None:
    """Grouped by message id, largest output wins, the sums are the truth; summed line by line they are not."""
    target, truth = corpus
    best: dict[str, Json] = {}
    naive = 0
    for _, line in _lines(target):
        if line["type"] == "assistant":
            name, usage = line["message"]["id"], line["message"]["usage"]
            naive += usage["cache_read_input_tokens"]
            if name not in best or usage["output_tokens"] >= best[name]["output_tokens"]:
                best[name] = usage
    fields = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    assert tuple(sum(usage[field] for usage in best.values()) for field in fields) == truth.tokens()
    assert truth.responses == len(best)
    assert naive > truth.cache_read_tokens * 1.2


def test_truth_counts_prompts_and_calls_once(corpus: tuple[Path, Truth]) -> None:
    """Prompts and tool calls are counted without the copies in forks, and every call has its result."""
    target, truth = corpus
    prompts: set[str] = set()
    calls: set[str] = set()
    results: set[str] = set()
    for _, line in _lines(target):
        content = line.get("message", {}).get("content")
        if line["type"] == "user" and isinstance(content, str) and not line["isSidechain"]:
            prompts.add(line["uuid"])
        for block in content if isinstance(content, list) else ():
            calls.update([block["id"]] if block["type"] == "tool_use" else [])
            results.update([block["tool_use_id"]] if block["type"] == "tool_result" else [])
    assert truth.prompts == len(prompts)
    assert truth.tool_calls == len(calls)
    assert calls == results


def test_forks_copy_history_under_a_new_session(corpus: tuple[Path, Truth]) -> None:
    """As many files as there are forks share uuids with another, and every parent of a line exists."""
    target, truth = corpus
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, line in _lines(target):
        if "uuid" in line:
            homes[line["uuid"]].add(path)
    assert truth.forks > 0
    assert len({frozenset(paths) for paths in homes.values() if len(paths) > 1}) == truth.forks
    assert all(line["parentUuid"] in homes for _, line in _lines(target) if line.get("parentUuid"))


def test_one_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    """The tree depends on the seed and on nothing else."""
    trees = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        generate_claude(tmp_path / name, 0.3, seed=seed, projects=2)
        root = tmp_path / name
        trees.append({str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()})
    assert trees[0] == trees[1]
    assert trees[0] != trees[2]


def test_text_compresses_like_real_logs(corpus: tuple[Path, Truth]) -> None:
    """Lines are about two kilobytes on average, and files shrink four to seven times."""
    target, truth = corpus
    compressor = zstandard.ZstdCompressor(level=3)
    small = sum(len(compressor.compress(path.read_bytes())) for path in target.rglob("*.jsonl"))
    assert 1_500 < truth.bytes / truth.lines < 3_000
    assert 4 < truth.bytes / small < 7


def test_lines_have_the_wanted_length(tmp_path: Path) -> None:
    """Nearly all lines of the file for throughput are two kilobytes, and the truth counts them."""
    path = tmp_path / "lines.jsonl"
    truth = generate_lines(path, 1)
    lengths = [len(raw) for raw in path.read_bytes().splitlines()]
    assert truth.lines == len(lengths)
    assert truth.bytes == path.stat().st_size
    assert sum(1_900 < length < 2_150 for length in lengths) > 0.95 * len(lengths)
