"""The ClickHouse that tests use: the server at ``TEST_CLICKHOUSE_URL``, or the engine in process.

``none`` as the address leaves it out: ``make test`` does not need what ``make test-team`` installs.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from importlib.util import find_spec
from urllib.parse import urlsplit

from agenttrace.store.clickhouse.connection import Database

#: The server, where there is one.
_ADDRESS = os.environ.get("TEST_CLICKHOUSE_URL", "")
SERVER = "" if _ADDRESS == "none" else _ADDRESS


def has_clickhouse() -> bool:
    """Whether there is a ClickHouse to test on."""
    return _ADDRESS != "none" and (bool(SERVER) or find_spec("chdb") is not None)


def clickhouse_address(database: str) -> str:
    """The address of a database for tests."""
    if SERVER:
        return urlsplit(SERVER)._replace(path=f"/{database}").geturl()
    return f"chdb://{_directory()}?database={database}"


@cache
def _directory() -> str:
    place = tempfile.mkdtemp(prefix="agenttrace-chdb-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    # While a connection is open, others take a tenth of the time.
    atexit.register(Database.open(f"chdb://{place}").close)
    return place
