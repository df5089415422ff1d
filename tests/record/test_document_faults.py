"""What becomes of a document while it is followed: its agent is killed while it saves, its path leads elsewhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import test_documents
import test_source_faults

from agenttrace.record.files.documents import NOT_WHOLE, TOO_LARGE
from agenttrace.record.files.reader import NOT_A_FILE
from agenttrace.record.recorder import Recorder
from agenttrace.store import open_store

Machine = test_documents.Machine
message, settle = test_documents.message, test_documents.settle
following, look, limited = test_source_faults.following, test_source_faults.look, test_source_faults.limited
document, recorders = test_source_faults.document, test_source_faults.recorders

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes are those of POSIX")

#: An agent that dies while it saves: in place, or before it renames what it wrote.
AGENT = """
import os, sys
path, how = sys.argv[1:]
whole = sys.stdin.buffer.read()
with open(path if how == "in place" else path + ".tmp", "wb", buffering=0) as file:
    file.write(whole[: len(whole) - 40])
    os.fsync(file.fileno())
    os.kill(os.getpid(), 9)
"""


def entries(machine: Machine) -> list[str]:
    """Why something of the machine is in quarantine."""
    with open_store(machine.settings) as store:
        return [entry.reason for entry in store.quarantine.entries()]


def shown(machine: Machine) -> str | None:
    """Why the document cannot be read, as status shows it."""
    return test_source_faults.statuses(machine.settings)[machine.path.name].error


@pytest.mark.parametrize(("how", "reasons"), [("in place", [NOT_WHOLE]), ("renamed", [])])
def test_an_agent_that_is_killed_while_it_saves(
    document: Machine, recorders: list[Recorder], how: str, reasons: list[str]
) -> None:
    """Half a document is quarantined; what is not renamed yet is none. The next agent's document is read."""
    document.path.write_bytes(document.document([message(0)]))
    recorder = following(document, recorders)
    assert look(recorder).recorded == 2
    whole = document.document([message(0), message(1)])
    killed = subprocess.run([sys.executable, "-c", AGENT, str(document.path), how], input=whole, check=False)
    assert killed.returncode == -signal.SIGKILL
    look(recorder)
    assert entries(document) == [], "it may still be written"
    settle(document.path)
    look(recorder)
    assert entries(document) == reasons
    document.path.write_bytes(whole)
    look(recorder)
    assert (recorder.summary.recorded, entries(document)) == (3, [])


def a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def zeros_at_the_end(path: Path) -> None:
    """The size was on disk before the content was, when the power failed."""
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\0" * (len(data) - 100))


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


def another_inode(path: Path) -> None:
    path.unlink()
    garbage(path)


def nothing(path: Path) -> None:
    os.truncate(path, 0)


def another_document(path: Path) -> None:
    path.write_text("[1, 2, 3]")


DESTRUCTIONS = {
    a_directory: NOT_A_FILE,
    a_pipe: NOT_A_FILE,
    zeros_at_the_end: NOT_WHOLE,
    garbage: NOT_WHOLE,
    another_inode: NOT_WHOLE,
    nothing: None,
    another_document: NOT_WHOLE,
}


@pytest.mark.parametrize(("destroy", "reason"), DESTRUCTIONS.items(), ids=lambda each: getattr(each, "__name__", ""))
def test_something_else_in_place_of_a_document(
    document: Machine, recorders: list[Recorder], destroy: Callable[[Path], None], reason: str | None
) -> None:
    """It is quarantined, or an error that status shows; other logs go on, and a good document is read on."""
    pi = document.home / ".pi" / "agent" / "sessions" / "x" / "1_01a1e1cf-c58d-7494-9516-4ee9af3bc229.jsonl"
    pi.parent.mkdir(parents=True)
    document.path.write_bytes(document.document([message(0)]))
    recorder = following(document, recorders)
    assert look(recorder).recorded == 2
    destroy(document.path)
    settle(document.path)
    header = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-16T00:00:00.000Z"}
    pi.write_text(json.dumps(header) + "\n")
    for _ in range(3):
        look(recorder)
    assert recorder.summary.recorded == 3
    assert [*entries(document), *filter(None, [shown(document)])] == ([reason] if reason else [])
    if document.path.is_dir():
        document.path.rmdir()
    document.path.unlink(missing_ok=True)
    document.path.write_bytes(document.document([message(0), message(1)]))
    look(recorder)
    assert (recorder.summary.recorded, entries(document), shown(document)) == (4, [], None)


def test_a_document_that_stays_too_large(document: Machine, recorders: list[Recorder]) -> None:
    """One entry that names the limit, however often it is written; resolved once it fits, and new after that."""
    document.settings = limited(document.settings, 5_000)
    recorder = following(document, recorders)
    for again in range(2):
        for number in range(3):
            document.path.write_bytes(document.document([message(0, "x" * (6_000 + 10 * again + number))]))
            look(recorder)
            assert entries(document) == [TOO_LARGE]
        document.path.write_bytes(document.document([message(0), *(message(each) for each in range(1, again + 2))]))
        look(recorder)
        assert (recorder.summary.recorded, entries(document)) == (3 + again, [])
    assert recorder.summary.quarantined == 2
