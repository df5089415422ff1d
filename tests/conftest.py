"""What all tests share: how hard hypothesis searches, and a home that is nobody's real one."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

from agenttrace.store.sqlite import database
from agenttrace.store.sqlite.schema import MIGRATIONS
from scratch import MEMORY

if MEMORY is not None:
    # Where pytest makes its directories, unless --basetemp says otherwise.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    tempfile.tempdir = str(MEMORY)

settings.register_profile("dev", max_examples=30, deadline=None)
settings.register_profile("ci", max_examples=40, deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

#: PostgreSQL, for the tests under tests/run and for those directly in here.
pytest_plugins = ["run.fixtures"]

#: Where the agents look for their logs, and the directory each is pointed at instead.
AGENT_HOMES = {
    "HOME": "",
    "USERPROFILE": "",
    "KIMI_SHARE_DIR": ".kimi",
    "KIMI_CODE_HOME": ".kimi-code",
    "CLAUDE_CONFIG_DIR": ".claude",
    "CODEX_HOME": ".codex",
}


def _move_into(root: Path, patch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AGENTTRACE_")]:
        patch.delenv(name)
    for name, directory in AGENT_HOMES.items():
        patch.setenv(name, str(root / directory))
    home = root / ".agenttrace"
    home.mkdir(mode=0o700)
    patch.setenv("AGENTTRACE_HOME", str(home))
    return home


@pytest.fixture(autouse=True, scope="session")
def _away_from_real_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Even a test that asks for nothing never reads the logs of whoever runs it."""
    with pytest.MonkeyPatch.context() as patch:
        _move_into(tmp_path_factory.mktemp("nobody"), patch)
        yield


@pytest.fixture(autouse=True, scope="session")
def _stores_from_a_template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A new store is a copy of one that was migrated once: the migrations cost more than most tests do with it."""
    path = tmp_path_factory.mktemp("template") / "agenttrace.db"
    database.connect(path).close()
    template, create = path.read_bytes(), database.create_private

    def copy(path: Path) -> None:
        if path.exists() or vars(database)["MIGRATIONS"] is not MIGRATIONS:
            # A test has set others.
            create(path)
            return
        made = path.with_name(f"{path.name}-{secrets.token_hex(4)}")
        create(made)
        made.write_bytes(template)
        with suppress(FileExistsError):
            # Another thread may have created it meanwhile.
            os.link(made, path)
        made.unlink()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "create_private", copy)
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh data directory, and beside it (``home.parent``) homes for the agents, none existing yet."""
    root = tmp_path / "user"
    root.mkdir()
    return _move_into(root, monkeypatch)
