"""SIGKILL while notes are written, by a rule, a command and a program: each is there once, and can be found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agenttrace.store.questions import SearchQuery
from rules import dying_notes
from rules.rig import Rig

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")

#: A rule has many statements to die before, a server takes longest to start.
STEPS = {"rule": 13, "command": 4, "api": 7}


@pytest.mark.parametrize("way", dying_notes.WAYS)
def test_each_note_is_written_once(tmp_path: Path, way: str) -> None:
    """Wherever the writer dies, and however often it is repeated then."""
    dying_notes.prepare(tmp_path)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, dying_notes.__file__, str(tmp_path), way, str(STEPS[way])]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": tests}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) >= 2
    rig = Rig(tmp_path, dying_notes.TABLES)
    session = rig.store.session("s")
    found = rig.store.annotations([session.id])[session.id]
    kinds = sorted((each.kind, each.name, each.value) for each in found)
    if way == "rule":
        assert kinds == [("label", "short", None), ("label", "smooth", None), ("score", "session-summary", 7.0)]
    else:
        assert kinds == [("note", "", None)]
    notes = [each.text for each in found if each.kind == "note"]
    assert notes == ([] if way == "rule" else [dying_notes.TEXTS[way]])
    words = "It is" if way == "rule" else "from a"
    assert len(rig.store.search_annotations(SearchQuery(text=words))) == 1
    count = "SELECT count(*) FROM annotation_search", "SELECT count(*) FROM annotations WHERE search_no IS NOT NULL"
    searched, rows = (rig.store.connection.execute(each).fetchone()[0] for each in count)
    assert searched == rows > 0
    rig.close()
