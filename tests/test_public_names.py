"""The public names of the specification: importable from ``agenttrace``, with its signatures and defaults."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import agenttrace

SIGNATURES: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "generate_event_id": (
        agenttrace.generate_event_id,
        ["session_id", "turn_index", "step_n", "event_type", "key=None"],
    ),
    "EventDeduplicator": (
        agenttrace.EventDeduplicator,
        ["memory_cache_size=10000", "ttl_hours=24", "db_path=None"],
    ),
    "is_duplicate": (agenttrace.EventDeduplicator.is_duplicate, ["self", "event_id", "session_id=None"]),
    "cleanup_expired": (agenttrace.EventDeduplicator.cleanup_expired, ["self"]),
    "get_stats": (agenttrace.EventDeduplicator.get_stats, ["self"]),
    "PersistentOffsetStore": (agenttrace.PersistentOffsetStore, ["db_path=None"]),
    "save_offset": (
        agenttrace.PersistentOffsetStore.save_offset,
        ["self", "filepath", "offset", "file_size", "inode=None", "fingerprint=None"],
    ),
    "get_offset": (agenttrace.PersistentOffsetStore.get_offset, ["self", "filepath"]),
    "check_inode_reuse": (
        agenttrace.PersistentOffsetStore.check_inode_reuse,
        ["self", "filepath", "current_inode", "current_fingerprint"],
    ),
    "cleanup_old_records": (
        agenttrace.PersistentOffsetStore.cleanup_old_records,
        ["self", "max_age_hours=168"],
    ),
    "FileFingerprint": (agenttrace.FileFingerprint, ["filepath"]),
    "compute": (agenttrace.FileFingerprint.compute, ["self"]),
    "has_changed": (agenttrace.FileFingerprint.has_changed, ["self", "other_fingerprint"]),
    "read_new_records": (agenttrace.IncrementalJSONLReader.read_new_records, ["self"]),
}


def test_exported_members() -> None:
    """``__all__`` is what the specification promises and the library offers, and each name is there."""
    promised = {
        "EventDeduplicator",
        "FileFingerprint",
        "FileOffset",
        "IncrementalJSONLReader",
        "JSONLRecord",
        "PersistentOffsetStore",
        "generate_event_id",
    }
    answers = {"Annotation", "Hit", "Message", "Rows", "Session", "Span", "Usage"}
    library = {"AlreadyRecordingError", "Recorder", "Store", "StoreError", "TriggerClient", "open_store"}
    assert set(agenttrace.__all__) == promised | answers | library
    for name in agenttrace.__all__:
        assert getattr(agenttrace, name).__name__ == name
        assert name in dir(agenttrace)


def test_exported_members_are_the_ones_of_their_modules() -> None:
    """A name imported from the package is the object its module defines, not a copy."""
    for name, home in agenttrace._HOMES.items():
        assert getattr(agenttrace, name) is getattr(importlib.import_module(home), name)
    assert set(agenttrace._HOMES) == set(agenttrace.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    """The lazy package behaves as any other for names it does not have."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        agenttrace.nothing  # noqa: B018  # looking it up is the test


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    """Parameter names, their order and their defaults are the specification's."""
    function, expected = SIGNATURES[name]
    parameters = inspect.signature(function).parameters.values()
    shown = [
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default}"
        for parameter in parameters
    ]
    assert shown == expected


def test_the_reader_takes_a_path_and_a_store() -> None:
    """``IncrementalJSONLReader(filepath, offset_store)``; whatever else it takes has a default."""
    first, second, *others = inspect.signature(agenttrace.IncrementalJSONLReader).parameters.values()
    assert (first.name, second.name) == ("filepath", "offset_store")
    assert all(parameter.default is not parameter.empty for parameter in others)


def test_mark_processed_takes_what_the_table_holds() -> None:
    """``mark_processed`` names the columns of the specification's table, the id alone is needed."""
    _, event_id, *others = inspect.signature(agenttrace.EventDeduplicator.mark_processed).parameters.values()
    assert event_id.name == "event_id"
    assert [parameter.name for parameter in others] == [
        "session_id",
        "turn_index",
        "step_n",
        "event_type",
        "span_id",
    ]
    assert all(parameter.default is not parameter.empty for parameter in others)


def test_the_fields_of_a_file_offset() -> None:
    """``FileOffset`` has the specification's fields in its order, so that positional use works."""
    assert [field.name for field in fields(agenttrace.FileOffset)] == [
        "filepath",
        "offset",
        "inode",
        "fingerprint",
        "file_size",
        "last_read_at",
        "read_count",
    ]


def test_importing_the_package_is_cheap() -> None:
    """``import agenttrace`` loads none of our modules and none of our dependencies."""
    program = (
        "import sys, agenttrace\n"
        "heavy = ('msgspec', 'zstandard', 'sqlite3', 'watchfiles', 'rich', 'typer', 'agenttrace.')\n"
        "print([name for name in sys.modules if name.startswith(heavy)])"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert run.stdout.strip() == "[]"
