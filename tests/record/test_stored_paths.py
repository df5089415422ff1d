"""Files by their path in the store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agenttrace.record.files.reader import stored_path
from agenttrace.record.files.stored_paths import still_there


@pytest.mark.parametrize("name", [b"plain", b"\xff\xfe", b"back\\xslash", b"back\\xff", "会话".encode(), b"a b\nc"])
def test_a_file_is_found_by_its_stored_path(tmp_path: Path, name: bytes) -> None:
    """The store cannot have every name as it is; its escaped form still leads to the file."""
    path = os.fsencode(tmp_path) + b"/" + name
    stored = stored_path(os.fsdecode(path))
    assert not still_there(stored)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    assert still_there(stored)
    os.unlink(path)
    assert not still_there(stored)


def test_a_dangling_link_is_there(tmp_path: Path) -> None:
    """The name exists; what it names may come back."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nothing")
    assert still_there(str(link))


@pytest.mark.skipif(not hasattr(os, "fork") or os.geteuid() != 0, reason="needs root to become somebody else")
def test_a_directory_that_may_not_be_entered_is_not_a_deletion(tmp_path: Path) -> None:
    """Without permission to read a directory, its files are not gone."""
    closed = tmp_path / "closed"
    closed.mkdir()
    (closed / "log").touch()
    tmp_path.chmod(0o755)
    closed.chmod(0o700)
    os.seteuid(65534)
    try:
        answer = still_there(str(closed / "log"))
    finally:
        os.seteuid(0)
    assert answer
