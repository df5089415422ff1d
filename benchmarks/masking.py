"""CPU of masking agents' texts, compared with the limits of the machine and with detect-secrets.

detect-secrets (PyPI) does the first part of masking: it reports where secrets are in a line. Replacing them is not
part of its cost.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from agenttrace.masking import Mask
from agenttrace.masking.scanner import RULES
from benchmarks.generate import cached_claude
from benchmarks.measure import run, sandbox_environ
from benchmarks.peers import AbsentError
from benchmarks.table import Result, Row

VERSION = "1.5.0"
#: Shorter strings of a line are ids, times and names.
_TEXT_CHARS = 64
#: The size of the logs that texts are taken from, and the share for slow programs.
_MEGABYTES = 60
_SHARE_BYTES = 2_000_000

_SCAN = """
import json, sys
from detect_secrets.core.scan import scan_line
from detect_secrets.settings import default_settings
texts = json.load(open(sys.argv[1]))
with default_settings():
    for text in texts:
        for line in text.splitlines():
            list(scan_line(line))
"""


def measure(data: Path, peers: Path, work: Path) -> Result:
    """CPU per gigabyte of text; most of it has no secret, as in real logs."""
    texts = list(_texts(cached_claude(data, _MEGABYTES)[0]))
    size = sum(len(text.encode()) for text in texts)
    mask = Mask()
    base = _spent(mask.text, texts) / size
    rows = [_row("Mask.text", base, base)]
    secret = "".join(("sk-ant-", "api03-", "a1B2c3D4e5" * 9))
    told = [f"{text}\nexport API_KEY={secret}\n" if number % 20 == 0 else text for number, text in enumerate(texts)]
    rows.append(_row("the same, a secret in every 20th text", _spent(mask.text, told) / size, base))
    documents = [msgspec.json.encode({"token_count": 5, "text": text}).decode() for text in texts]
    read = sum(len(text.encode()) for text in documents)
    rows.append(_row("the same in documents of JSON", _spent(mask.text, documents) / read, base))
    rows.append(_row("the same with three patterns of one's own", _spent(_with_patterns().text, texts) / size, base))
    share = _share(texts)
    shared = sum(len(text.encode()) for text in share)
    rows.append(_row("the anchors as one pattern of re, without rules", _spent(_alternation(), share) / shared, base))
    try:
        rows.append(_row(f"detect-secrets {VERSION}, scan_line", _detect_secrets(peers, work, share) / shared, base))
    except AbsentError as error:
        rows.append(Row("detect-secrets", {}, note=str(error)))
    for name, limit in _LIMITS.items():
        rows.append(_row(f"limit: {name}", _spent(limit, texts) / size, base))
    return Result(f"Masking {size / 1e6:.0f} MB in {len(texts)} texts of agents", rows)


def _row(who: str, seconds_a_byte: float, base: float) -> Row:
    return Row(who, {"CPU s/GB": f"{seconds_a_byte * 1e9:.1f}"}, seconds_a_byte / base)


def _texts(tree: Path) -> Iterator[str]:
    for path in sorted(tree.rglob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            yield from _strings(msgspec.json.decode(line))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if len(value) >= _TEXT_CHARS:
            yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def _share(texts: list[str]) -> list[str]:
    taken, size = [], 0
    for text in texts[:: max(1, len(texts) // 5000)]:
        taken.append(text)
        size += len(text)
        if size > _SHARE_BYTES:
            break
    return taken


def _spent(work: Callable[[str], object], texts: list[str]) -> float:
    """CPU seconds, the best of three runs: other load on the machine only adds to them."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        for text in texts:
            work(text)
        best = min(best, time.process_time() - began)
    return best


def _with_patterns() -> Mask:
    return Mask([r"corp-[0-9a-f]{32}", r"\bEMP-\d{6}\b", r"(?<=X-Corp: )\S+"])


def _alternation() -> Callable[[str], object]:
    """The same anchors as one regular expression, without another package."""
    anchors = sorted({anchor for rule in RULES for anchor in rule.anchors}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, anchors))).findall


#: Reading every byte once, and writing it once more.
_LIMITS: dict[str, Callable[[str], object]] = {
    "a copy in UTF-8": str.encode,
    "the same and its CRC-32": lambda text: zlib.crc32(text.encode()),
    "the same and zlib at level 1": lambda text: zlib.compress(text.encode(), 1),
}


def _detect_secrets(peers: Path, work: Path, texts: list[str]) -> float:
    """CPU seconds for these texts, without those of the start, which are measured with no text."""
    program = _install(peers)
    work.mkdir(parents=True, exist_ok=True)
    spent = []
    for number, given in enumerate(([], texts)):
        path = work / f"texts-{number}.json"
        path.write_bytes(msgspec.json.encode(given))
        cost = run([program, "-c", _SCAN, path], environ=sandbox_environ(work / "home"))
        if cost.exit_code:
            raise AbsentError(f"detect-secrets ended with {cost.exit_code}: {cost.output[-200:]}")
        spent.append(cost.cpu_seconds)
    return spent[1] - spent[0]


def _install(peers: Path) -> Path:
    """The Python of a separate environment with detect-secrets."""
    venv = peers / f"detect-secrets-{VERSION}"
    program = venv / "bin" / "python"
    if not (venv / "bin" / "detect-secrets").exists():
        for command in (
            [sys.executable, "-m", "venv", str(venv)],
            [str(program), "-m", "pip", "install", "--quiet", f"detect-secrets=={VERSION}"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise AbsentError(f"detect-secrets cannot be installed: {done.stderr.strip()[-200:]}")
    return program
