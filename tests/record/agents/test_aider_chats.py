"""Aider: chats in Markdown, whose histories may be copied, cut off and written by two processes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttrace.config import ensure_home, load_settings
from agenttrace.record.recorder import Recorder

HISTORY = Path(__file__).resolve().parents[2] / "data" / "aider-0.86.2" / "project" / ".aider.chat.history.md"
SUMS = "SELECT count(*), sum(input_tokens), sum(output_tokens), min(estimated) FROM responses"
CHAT = """
# aider chat started at 2026-11-16 10:00:00

> Main model: openai/gpt-4o with diff edit format

#### Fix it
{answer}

> Tokens: 2.4k sent, 8 received. Cost: $0.0061 message, $0.0061 session.
"""


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    settings = load_settings({"HOME": str(tmp_path), "AGENTTRACE_HOME": str(tmp_path / "data")})
    ensure_home(settings)
    recorder = Recorder(settings, environ={"HOME": str(tmp_path)})
    yield recorder
    recorder.close()


def write(home: Path, project: str, text: str) -> Path:
    path = home / project / HISTORY.name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_copy_of_a_project_counts_nothing_again(tmp_path: Path, recorder: Recorder) -> None:
    """Its chats are sessions of their own directory; their tokens belong to the ones that were first."""
    shutil.copy(HISTORY, write(tmp_path, "shop", ""))
    recorder.run_once()
    before = recorder.connection.execute(SUMS).fetchone()
    shutil.copy(HISTORY, write(tmp_path, "copy", ""))
    recorder.run_once()
    assert recorder.connection.execute(SUMS).fetchone() == before
    assert before[3] == 1, "they are estimates"


def test_two_projects_in_the_same_second(tmp_path: Path, recorder: Recorder) -> None:
    """The same prompt and the same figures, and two answers: two responses."""
    write(tmp_path, "one", CHAT.format(answer="Done."))
    write(tmp_path, "two", CHAT.format(answer="That is done."))
    recorder.run_once()
    assert recorder.connection.execute(SUMS).fetchone() == (2, 4800, 16, 1)


def test_keys_in_the_command_line_are_no_text(tmp_path: Path, recorder: Recorder) -> None:
    """Aider writes its options into the history, and they may be keys."""
    line = "> aider --model gpt-4o --openai-api-key sk-verysecret\n"
    write(tmp_path, "one", CHAT.format(answer="Done.").replace("> Main", line + "> Main"))
    recorder.run_once()
    aider = recorder.pipeline.agents["aider"]
    for row in recorder.store.lines():
        head = aider.recognise(tmp_path / "one" / HISTORY.name, row.raw)
        assert head is not None
        event = aider.decode(row.raw, head)
        assert "verysecret" not in repr(aider.content(event, head))  # type: ignore[arg-type]  # all lines are whole


def test_a_prompt_without_an_answer(tmp_path: Path, recorder: Recorder) -> None:
    """Killed while the model answered: the turn is open, and the next chat is another session."""
    killed = CHAT.partition("{answer}")[0]
    write(tmp_path, "one", killed + CHAT.format(answer="Done.").replace("10:00:00", "10:05:00"))
    recorder.run_once()
    query = "SELECT status FROM spans WHERE kind = 'turn' ORDER BY start"
    assert [status for (status,) in recorder.connection.execute(query)] == ["open", "ok"]
