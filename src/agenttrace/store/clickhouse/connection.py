"""One connection to ClickHouse: a server, or the engine in process.

- ``clickhouse://user:password@host:8123/database`` is a server; ``clickhouses://…`` or ``?secure=1`` for HTTPS. With
  ``?cluster=NAME`` tables are made on all replicas of that cluster, which has one shard. With ``?consistent=1`` a
  write waits until a majority of the replicas has it, and questions are answered by replicas that have everything: a
  page costs more, and what was acknowledged is in every answer also where one replica is behind or lost.
- ``chdb:///directory?database=name`` is the engine in process, which has one directory in a process.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

from agenttrace.store.clickhouse.literals import Value, bound, literal
from agenttrace.store.errors import QueryInterruptedError, StoreAwayError, StoreError

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

Row = tuple[Any, ...]

NOTHING_YET = "there is no store of a team at this address yet: agenttrace team serve makes it"
_START = "Start it, or check the address of the team's store."
_IN_USE = (
    "{path} is open in another process, and the engine in process has one at a time: ask that server by its console or "
    "API, or stop it first. A ClickHouse server (clickhouse://…) takes any number"
)
#: A server that is started waits so long for the end of the one before it.
_ENDING_SECONDS = 3.0
#: Directories of the engine that this process has open.
_opened_here: set[str | None] = set()

_PORT, _SECURE_PORT = 8123, 8443
_DATABASE = "agenttrace"
#: Lists of numbers and ids are part of the text of a question.
_SETTINGS: dict[str, Any] = {
    "max_query_size": 1 << 28,
    "max_ast_elements": 5_000_000,
    "max_expanded_ast_elements": 5_000_000,
    # A row without a partner has none, as in any other SQL.
    "join_use_nulls": 1,
}
#: Older servers may bring back a row that one in a skipped granule replaces.
_EXACT_SINCE = (25, 6)
_EXACT = {"use_skip_indexes_if_final": 1, "use_skip_indexes_if_final_exact_mode": 1}
_CONSISTENT = {"insert_quorum": "auto", "insert_quorum_parallel": 0, "select_sequential_consistency": 1}
#: Nothing is written; settings of single questions can be given.
_READ_ONLY = {"readonly": 2}
_SHARDS = "SELECT uniqExact(shard_num) FROM system.clusters WHERE cluster = :cluster"
#: QUERY_WAS_CANCELLED, and its form for a client that is gone.
_CANCELLED = frozenset((394, 735))

#: Parts of questions that are about the rows of a table which is nearly always empty.
_RARE = {name: re.compile(rf"/\*{name}\*/.*?/\*end of {name}\*/", re.DOTALL) for name in ("contested", "copies")}
#: So often it is looked whether it still is.
_RARE_SECONDS = 0.2


def rare(table: str, part: str) -> str:
    """A part of a question that is left out while a table is empty."""
    return f"/*{table}*/{part}/*end of {table}*/"


class Target(NamedTuple):
    """What an address says."""

    #: Of the client.
    options: dict[str, Any]
    database: str
    cluster: str | None
    consistent: bool

    @classmethod
    def of(cls, address: str) -> Target:
        """What an address says; ``StoreError`` for what is none."""
        parts = urlsplit(address)
        more = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if parts.scheme == "chdb" and parts.path.strip("/"):
            options: dict[str, Any] = {"interface": "chdb", "path": unquote(parts.path)}
            return cls(options, more.get("database", _DATABASE), None, False)
        if parts.scheme not in ("clickhouse", "clickhouses") or not parts.hostname:
            raise StoreError("a ClickHouse store is clickhouse://user:password@host:8123/database")
        secure = parts.scheme == "clickhouses" or more.get("secure") == "1"
        options = {
            "host": parts.hostname,
            "port": parts.port or (_SECURE_PORT if secure else _PORT),
            "username": unquote(parts.username or "default"),
            "password": unquote(parts.password or ""),
            "secure": secure,
        }
        database = unquote(parts.path.strip("/")) or _DATABASE
        return cls(options, database, more.get("cluster"), more.get("consistent") == "1")


class Database:
    """Statements to one database. Used by one thread at a time; ``interrupt`` may come from another one."""

    def __init__(self, target: Target, *, read_only: bool = False) -> None:
        self.target = target
        self._settings = _SETTINGS | (_CONSISTENT if target.consistent else {}) | (_READ_ONLY if read_only else {})
        #: Names the statements of this connection, for an interruption.
        self._name = f"agenttrace-{secrets.token_hex(8)}"
        #: Which rare tables have rows, and when that was so.
        self._not_empty, self._looked_at = frozenset[str](), -_RARE_SECONDS
        self._client = self._connect()
        try:
            self._use(read_only=read_only)
        except BaseException:
            self.close()
            raise
        if self.version >= _EXACT_SINCE:
            for name, value in _EXACT.items():
                self._client.set_client_setting(name, value)

    @classmethod
    def open(cls, address: str, *, read_only: bool = False) -> Self:
        """The database of an address; made where it is missing, unless ``read_only``."""
        return cls(Target.of(address), read_only=read_only)

    def _use(self, *, read_only: bool) -> None:
        """Ask this database from now on."""
        known = self.value("SELECT count() FROM system.databases WHERE name = :name", name=self.target.database)
        if not known and read_only:
            raise StoreError(NOTHING_YET)
        if (cluster := self.target.cluster) is not None:
            check_cluster(cluster, int(self.value(_SHARDS, cluster=cluster)))
        if not known:
            self.command(f"CREATE DATABASE IF NOT EXISTS {self.identifier}{self.on_cluster}")
        self._client.database = self.target.database

    def _connect(self) -> Client:
        try:
            from clickhouse_connect import get_client
        except ImportError as error:
            raise StoreError("ClickHouse needs another package: pip install 'agenttrace[team]'") from error
        options = dict(self.target.options)
        # It tells what is raised, and told, too.
        logging.getLogger("clickhouse_connect").setLevel(logging.CRITICAL)
        if "host" in options:
            # Sessions of a server lock each other out.
            options["autogenerate_session_id"] = False
        else:
            _check_engine(options["path"], read_only=_READ_ONLY.items() <= self._settings.items())
        try:
            client = get_client(**options, database="default", settings=self._settings)
        except Exception as error:
            raise self._failure(error) from error
        _opened_here.add(options.get("path"))
        return client

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @property
    def identifier(self) -> str:
        """The database's name as SQL has it."""
        return "`" + self.target.database.replace("\\", "\\\\").replace("`", "\\`") + "`"

    @property
    def on_cluster(self) -> str:
        """What statements that make tables end their names with."""
        return "" if self.target.cluster is None else f" ON CLUSTER {literal(self.target.cluster)}"

    @property
    def version(self) -> tuple[int, ...]:
        """The version of ClickHouse, as far as it is numbers."""
        return tuple(int(part) for part in (self._client.server_version or "").split(".") if part.isdigit())

    # -- statements -----------------------------------------------------------------------------------------------

    def rows(self, sql: str, *, raw: Sequence[str] = (), **values: Value) -> list[Row]:
        """The answer to a question; the columns ``raw`` are bytes, whatever they hold."""
        with self._failures():
            found = self._client.query(
                bound(self._asked(sql), values),
                settings={"log_comment": self._name},
                column_formats=dict.fromkeys(raw, "bytes") if raw else None,
            )
            return [tuple(row) for row in found.result_rows]

    def _asked(self, sql: str) -> str:
        """The question without the parts that nothing is there for."""
        for name in _RARE:
            if f"/*{name}*/" in sql and not self.has_rows(name):
                sql = _RARE[name].sub("", sql)
        return sql

    def has_rows(self, table: str) -> bool:
        """Whether a table that is nearly always empty is not; other servers write, too."""
        if time.monotonic() > self._looked_at + _RARE_SECONDS:
            counts = ", ".join(f"(SELECT count() FROM {name})" for name in _RARE)
            found = self._client.query(f"SELECT {counts}").result_rows[0]
            self._not_empty = frozenset(name for name, count in zip(_RARE, found, strict=True) if count)
            self._looked_at = time.monotonic()
        return table in self._not_empty

    def value(self, sql: str, **values: Any) -> Any:  # noqa: ANN401 - of any column
        """The first value of the first row; ``None`` where there is none."""
        found = self.rows(sql, **values)
        return found[0][0] if found else None

    def command(self, sql: str, **values: Value) -> None:
        """Run a statement."""
        with self._failures():
            self._client.command(bound(sql, values), settings={"log_comment": self._name})

    def insert(
        self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, token: str | None = None
    ) -> None:
        """Store rows before this returns; the same ``token`` a second time stores nothing."""
        if rows:
            if table in _RARE:
                self._looked_at = -_RARE_SECONDS
            settings = {"async_insert": 0} | ({} if token is None else {"insert_deduplication_token": token})
            with self._failures():
                self._client.insert(table, rows, column_names=columns, settings=settings)

    def interrupt(self) -> None:
        """Make the statement fail that runs in another thread."""
        with suppress(Exception):
            other = self._connect()
            try:
                other.command(f"KILL QUERY WHERE Settings['log_comment'] = {literal(self._name)} ASYNC")
            finally:
                other.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        from clickhouse_connect.driver.exceptions import ClickHouseError

        try:
            yield
        except ClickHouseError as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> StoreError:
        """What a failure of the client means."""
        from clickhouse_connect.driver.exceptions import OperationalError

        code = getattr(error, "code", None)
        if code in _CANCELLED:
            return QueryInterruptedError("the question was interrupted")
        if code is None and isinstance(error, OperationalError | OSError) and "host" in self.target.options:
            place = "{host}:{port}".format_map(self.target.options)
            return StoreAwayError(f"ClickHouse at {place} does not answer ({_reason(error)})", _START)
        return StoreError(f"ClickHouse: {_first_line(error)}")


def check_cluster(name: str, shards: int) -> None:
    """Raise where a cluster cannot hold a store: every replica has to have all rows, as questions join tables."""
    if not shards:
        raise StoreError(f"ClickHouse has no cluster named {name!r}: see SELECT cluster FROM system.clusters")
    if shards > 1:
        raise StoreError(
            f"the cluster {name!r} has {shards} shards, and a team's store needs one: name a cluster of replicas of "
            "one shard, or give groups of machines a server and a database each"
        )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _reason(error: BaseException) -> str:
    """Why there is no connection, as the system says it."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        found = found.__cause__ or found.__context__
    return "the connection ended"


def _check_engine(path: str, *, read_only: bool) -> None:
    """Say what is wrong before the engine in process does, which writes to standard error."""
    from importlib.util import find_spec

    if find_spec("chdb") is None:
        raise StoreError("the engine in process needs another package: pip install chdb")
    if read_only and not os.path.isdir(path):
        raise StoreError(NOTHING_YET)
    status = os.path.join(path, "status")
    until = time.monotonic() + (0 if read_only else _ENDING_SECONDS)
    while path not in _opened_here and _is_locked(status):
        if time.monotonic() >= until:
            raise StoreError(_IN_USE.format(path=path))
        time.sleep(0.05)


def _is_locked(path: str) -> bool:
    """Whether another process has the engine's directory open."""
    import fcntl  # where there is the engine, there is this

    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
