"""Offsets: any instance finds saved offsets; a file that grows is no reuse, another file is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace import FileFingerprint, FileOffset, PersistentOffsetStore

reuses_store = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def offsets(tmp_path: Path) -> Iterator[PersistentOffsetStore]:
    with PersistentOffsetStore(tmp_path / "offsets.db") as found:
        yield found


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"n": 0}\n')
    return path


def save(offsets: PersistentOffsetStore, log: Path) -> int:
    """Save the end of the file as a program of the specification does; returns its inode."""
    seen = FileFingerprint(log).compute()
    offsets.save_offset(str(log), seen["size"], seen["size"], seen["inode"], seen["fingerprint"])
    return int(seen["inode"])


def reused(offsets: PersistentOffsetStore, log: Path) -> bool:
    """Check as the specification does: with the present inode and combined fingerprint."""
    seen = FileFingerprint(log).compute()
    return offsets.check_inode_reuse(str(log), seen["inode"], seen["fingerprint"])


# -- saving and finding -------------------------------------------------------------------------------------------


def test_an_unknown_file_has_offset_zero(offsets: PersistentOffsetStore) -> None:
    """The specification's answer for an unknown path."""
    assert offsets.get_offset("/nowhere") == FileOffset("/nowhere", 0, None, None, 0, 0, 0)


@reuses_store
@given(
    path=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20),
    saved=st.lists(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62), st.none() | st.integers(0, 2**62))),
)
def test_the_last_save_counts(
    offsets: PersistentOffsetStore, path: str, saved: list[tuple[int, int, int | None]]
) -> None:
    """Any path, any numbers: the latest are found, in another instance too, and each save is counted."""
    path = f"/nowhere/{path}"
    count = offsets.get_offset(path).read_count
    for offset, size, inode in saved:
        offsets.save_offset(path, offset, size, inode, "abc")
    with PersistentOffsetStore(offsets.db_path) as other:
        found = other.get_offset(path)
    if saved:
        assert (found.offset, found.file_size, found.inode) == saved[-1]
        assert found.fingerprint == "abc"
    assert found.read_count == count + len(saved)


def test_last_read_at_is_the_time_of_the_save(offsets: PersistentOffsetStore) -> None:
    """``last_read_at`` is the time of the save, in seconds."""
    before = time.time()
    offsets.save_offset("/nowhere", 1, 2)
    assert before <= offsets.get_offset("/nowhere").last_read_at <= time.time()


def test_the_default_store(home: Path) -> None:
    """Without a path, a separate file in the data directory is used."""
    with PersistentOffsetStore() as offsets:
        assert offsets.db_path == str(home / "offsets.db")


# -- another file under the same inode ----------------------------------------------------------------------------


def test_growth_is_not_reuse(offsets: PersistentOffsetStore, log: Path) -> None:
    """A short file that grows, also past the first KiB, stays the same file."""
    save(offsets, log)
    for number in range(1, 200):
        with log.open("ab") as file:
            file.write(b'{"n": %d}\n' % number)
        assert not reused(offsets, log)
        if number % 50 == 0:
            save(offsets, log)
    assert log.stat().st_size > 1024


@pytest.mark.parametrize("size", [1, 500, 1023, 1024, 1025, 5000])
def test_other_content_under_the_same_inode_is_reuse(offsets: PersistentOffsetStore, log: Path, size: int) -> None:
    """A file that is rewritten in place with another beginning has the same inode and is another file."""
    log.write_bytes(b"a" * size)
    inode = save(offsets, log)
    with log.open("r+b") as file:
        file.write(b"b")
    assert log.stat().st_ino == inode
    assert reused(offsets, log)


def test_a_file_that_became_shorter_is_reuse(offsets: PersistentOffsetStore, log: Path) -> None:
    """Where the part that was read is not complete, it is another file."""
    log.write_bytes(b"abc")
    save(offsets, log)
    with log.open("r+b") as file:
        file.truncate(1)
    assert reused(offsets, log)


def test_another_inode_is_not_reuse(offsets: PersistentOffsetStore, log: Path) -> None:
    """A file with another inode is a replacement, not a reuse."""
    inode = save(offsets, log)
    other = log.with_name("other")
    other.write_bytes(b"something else")
    other.replace(log)
    assert log.stat().st_ino != inode
    assert not reused(offsets, log)


def test_an_unknown_file_is_not_reuse(offsets: PersistentOffsetStore, log: Path) -> None:
    """A path that was never read has no reused inode."""
    assert not reused(offsets, log)


def test_made_up_names_are_compared_literally(offsets: PersistentOffsetStore) -> None:
    """Without the file, the same inode with another fingerprint means reuse, as the specification says."""
    offsets.save_offset("/made/up", 10, 20, inode=12345, fingerprint="fingerprint-1")
    assert not offsets.check_inode_reuse("/made/up", 12345, "fingerprint-1")
    assert offsets.check_inode_reuse("/made/up", 12345, "fingerprint-2")
    assert not offsets.check_inode_reuse("/made/up", 99999, "fingerprint-2")
    offsets.save_offset("/no/fingerprint", 10, 20, inode=12345)
    assert not offsets.check_inode_reuse("/no/fingerprint", 12345, "fingerprint-2")


# -- forgetting ---------------------------------------------------------------------------------------------------


def _age(offsets: PersistentOffsetStore, path: str, hours: float) -> None:
    offsets._connection.execute(
        "UPDATE file_offsets SET last_read_at = ? WHERE filepath = ?", (time.time() - hours * 3600, path)
    )


def test_old_records_are_removed(offsets: PersistentOffsetStore) -> None:
    """A week is the default; returns the number of removed files."""
    for path, hours in (("/new", 0.0), ("/six days", 144.0), ("/eight days", 192.0)):
        offsets.save_offset(path, 1, 1)
        _age(offsets, path, hours)
    assert offsets.cleanup_old_records() == 1
    assert offsets.get_offset("/eight days").read_count == 0
    assert offsets.cleanup_old_records(24) == 1
    assert offsets.get_offset("/new").read_count == 1
