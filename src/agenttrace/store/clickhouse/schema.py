"""The tables of the ClickHouse store, as one list of statements a version.

Every row is replaced by key: ``ver`` says which of two rows is newer (twice the revision that its machine gave it, one
more for a removal), ``revision`` is that of this store. ``origin`` is the machine that sent a row, with the name of its
store, as a rebuilt store is another one; it is empty for rows that were merged or written here. Nothing that can change
is in a key, and nothing is partitioned, because rows are replaced inside of a partition only.

Tables have no TTL: retention removes what it removes. ``index_granularity`` is small, since one session is the usual
question.
"""

from __future__ import annotations

from agenttrace.model import USAGE_FIELDS
from agenttrace.store.clickhouse.connection import NOTHING_YET, Database

_SETTINGS = "index_granularity = 512, non_replicated_deduplication_window = 1000"
_REPLICATED_SETTINGS = "index_granularity = 512, replicated_deduplication_window = 10000"
_NEWER = "the database was written by a newer AgentTrace; update this one"
_TOKENS = ", ".join(f"{name} Int64" for name in USAGE_FIELDS)
_REPLACED = "ver UInt64, deleted UInt8, revision Int64"


def _attribute(column: str, key: str, kind: str = "Nullable(String)", more: str = "") -> str:
    """A column that is read from the attributes when a span is stored."""
    return f"{column} {kind} DEFAULT JSONExtract(ifNull(attributes, ''), '{key}', '{kind}'){more}"


#: What questions about many spans need of the attributes.
_ATTRIBUTES = ", ".join(
    (
        "tool LowCardinality(String) DEFAULT if(startsWith(name, 'execute_tool '), substring(name, 14), "
        "ifNull(JSONExtract(ifNull(attributes, ''), 'tool', 'Nullable(String)'), name))",
        _attribute("call", "call"),
        _attribute("error", "error", more=" CODEC(ZSTD(3))"),
        _attribute("duration", "duration", "Nullable(Int64)"),
        _attribute("prompted_by", "origin"),
    )
)
#: Of a text index: since 25.10 it is no experiment any more.
_TEXT_INDEX_SINCE = (25, 10)
_TEXT_INDEX = ", INDEX idx_words words TYPE text(tokenizer = ngrams(2))"
#: Older servers: blocks without one of the bigrams are skipped all the same.
_PLAIN_INDEX = ", INDEX idx_words words TYPE ngrambf_v1(2, 32768, 2, 0) GRANULARITY 1"


def _table(name: str, columns: str, key: str, more: str = "") -> str:
    """A table of rows that are replaced by key; ``{engine}`` and the like are filled in for the server."""
    return (
        f"CREATE TABLE IF NOT EXISTS {name}{{cluster}} ({columns}, {_REPLACED}{more}) "
        f"ENGINE = {{replicated}}ReplacingMergeTree(ver, deleted) ORDER BY ({key}) SETTINGS {{settings}}"
    )


#: Migrations in order; the n-th brings a database from version n to n + 1. Never edit one that was released.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # Narrow, for lists: nothing long but the first prompt is in it. The folded texts are what filters compare.
        _table(
            "sessions",
            "id Int64, origin String, agent LowCardinality(String), session_id String, project Nullable(String), "
            "branch Nullable(String), title Nullable(String), first_prompt Nullable(String) CODEC(ZSTD(3)), "
            "version Nullable(String), model Nullable(String), parent Nullable(String), copied UInt8, "
            "born Nullable(Int64), state LowCardinality(String), started_at Nullable(Int64), last_at Nullable(Int64), "
            "turns Int64, steps Int64, tools Int64, errors Int64, events Int64, machine Nullable(String), "
            "person Nullable(String), folded_project String, folded_title String CODEC(ZSTD(3)), "
            "folded_words String CODEC(ZSTD(3))",
            "id, origin",
        ),
        # The copies of sessions that several machines hold, each with the events by which it is compared: those of its
        # last complete round. Which of them is shown is decided when reading.
        _table("copies", "session Int64, origin String, events Int64", "session, origin"),
        _table(
            "spans",
            "number Int64, span_id FixedString(8), trace_id FixedString(16), parent_id Nullable(FixedString(8)), "
            "session Int64, origin String, stream LowCardinality(String), kind LowCardinality(String), "
            "name LowCardinality(String), start Int64, end Nullable(Int64), status LowCardinality(String), "
            "model LowCardinality(Nullable(String)), turn_index Int64, step_n Int64, "
            "response Nullable(FixedString(16)), attributes Nullable(String) CODEC(ZSTD(3)), changed Int64, "
            + _ATTRIBUTES,
            "session, origin, span_id",
            ", INDEX idx_start start TYPE minmax GRANULARITY 1, INDEX idx_status status TYPE set(8) GRANULARITY 1",
        ),
        _table(
            "links",
            "session Int64, origin String, stream String, parent_stream String, call String",
            "session, origin, stream",
        ),
        # One row a response and machine; which of them counts is decided when reading.
        _table(
            "responses",
            "response FixedString(16), origin String, session Int64, at Int64, day LowCardinality(String), "
            f"model LowCardinality(String), estimated UInt8, copies Int64, terms String, "
            f"variant LowCardinality(String), {_TOKENS}",
            "session, origin, response",
            ", INDEX idx_at at TYPE minmax GRANULARITY 1",
        ),
        # In which session each response is on its machine: see ``ledger``.
        _table("owners", "response FixedString(16), origin String, session Int64", "response, origin"),
        # Which spans are of which response, for a look at the sessions that hold one.
        _table(
            "holders",
            "response FixedString(16), session Int64, origin String, span_id FixedString(8)",
            "response, session, origin, span_id",
        ),
        # Responses that several machines told, or one of a session that several machines have.
        _table("contested", "response FixedString(16)", "response"),
        # Sums of the responses of a session on its machine.
        _table(
            "rollup",
            "day LowCardinality(String), session Int64, origin String, model LowCardinality(String), "
            f"variant LowCardinality(String), requests Int64, estimated Int64, copies Int64, {_TOKENS}",
            "day, session, origin, model, variant",
            ", INDEX idx_session session TYPE bloom_filter(0.01) GRANULARITY 1",
        ),
        _table(
            "totals",
            "session Int64, origin String, scope LowCardinality(String), whose String, name String, moment Int64, "
            f"model String, at Int64, since Int64, trace_id FixedString(16), parent_id Nullable(FixedString(8)), "
            f"turn_index Int64, {_TOKENS}",
            "session, origin, scope, whose, name, moment, model",
        ),
        _table("files", "file_id Int64, origin String, path String, source Nullable(String)", "file_id"),
        # ``ver`` is twice the number; ``arrived`` is when it came, for what works off new events.
        _table(
            "events",
            "number Int64, session Int64, origin String, event_id FixedString(16), turn_index Int64, step_n Int64, "
            "event_type LowCardinality(String), span_id Nullable(FixedString(8)), recorded_at Float64, file_id Int64, "
            "generation Int64, offset Int64, raw Nullable(String) CODEC(ZSTD(3)), arrived Int64",
            "session, origin, event_id",
            ", INDEX idx_number number TYPE minmax GRANULARITY 1, INDEX idx_arrived arrived TYPE minmax GRANULARITY 1",
        ),
        _table(
            "annotations",
            "annotation_id FixedString(16), origin String, session Int64, span_id Nullable(FixedString(8)), "
            "kind LowCardinality(String), name String, value Nullable(Float64), text String CODEC(ZSTD(3)), "
            "source LowCardinality(String), author String, created_at Float64, changed_at Float64, "
            "removed_at Nullable(Float64), words String CODEC(ZSTD(3))",
            "annotation_id, origin",
            ", INDEX idx_session session TYPE bloom_filter(0.01) GRANULARITY 1",
        ),
        # Rows that machines removed: of what comes later, what was removed by then is not stored.
        _table(
            "removed",
            "kind LowCardinality(String), session Int64, origin String, key String, last_event Int64",
            "session, origin, kind, key",
        ),
        # The words of events, as they are searched; empty where there is nothing to find.
        _table(
            "texts",
            "number Int64, session Int64, origin String, arrived Int64, words String CODEC(ZSTD(3))",
            "session, origin, number",
            ", INDEX idx_arrived arrived TYPE minmax GRANULARITY 1{text_index}",
        ),
        # What came of sessions: derived from the lines by this store.
        _table(
            "outcomes",
            "session Int64, events Int64, examined_at Float64, files Int64, added Nullable(Int64), "
            "removed Nullable(Int64), commits Int64, pull_requests Int64, test_runs Int64, "
            "tests_passed Nullable(Int64), tests_failed Nullable(Int64), shares String CODEC(ZSTD(3))",
            "session",
        ),
        # How far the changes of each machine are stored.
        _table(
            "positions",
            "machine String, person String, store String, cursor String, received_at Float64",
            "machine",
        ),
        # Sessions whose texts were removed for good, and why: person or retention.
        _table(
            "forgotten",
            "session Int64, origin String, reason LowCardinality(String), last_event Int64",
            "session, origin",
        ),
        _table("meta", "key String, value String", "key"),
    ),
    (
        # The page of each machine whose rows were written last: see ``team``.
        _table("pages", "machine String, store String, until String, sessions String", "machine"),
        # A search begins with the newest texts.
        "ALTER TABLE texts{cluster} ADD INDEX IF NOT EXISTS idx_number number TYPE minmax GRANULARITY 1",
        "ALTER TABLE texts{cluster} MATERIALIZE INDEX idx_number",
    ),
)


def migrate(database: Database) -> None:
    """Bring the database to the version of this program; any number of servers may do so at a time."""
    from agenttrace.store.errors import NewerStoreError

    version = _version(database)
    if version > len(MIGRATIONS):
        raise NewerStoreError(_NEWER)
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        for statement in statements:
            database.command(filled(statement, database.on_cluster, database.version))
        database.insert("meta", ("key", "value", "ver"), [("version", str(number), number)])


def check(database: Database) -> None:
    """Raise where the database is not of the version of this program; nothing is written."""
    from agenttrace.store.errors import NewerStoreError, StoreError

    version = _version(database)
    if version > len(MIGRATIONS):
        raise NewerStoreError(_NEWER)
    if not version:
        raise StoreError(NOTHING_YET)
    if version < len(MIGRATIONS):
        raise StoreError("the database was written by an older AgentTrace: agenttrace team serve upgrades it")


def _version(database: Database) -> int:
    known = database.value(
        "SELECT count() FROM system.tables WHERE database = :database AND name = 'meta'",
        database=database.target.database,
    )
    return int(database.value("SELECT value FROM meta FINAL WHERE key = 'version'") or 0) if known else 0


def filled(statement: str, on_cluster: str, version: tuple[int, ...]) -> str:
    """A statement for a server of a version; ``on_cluster``: for all replicas of one."""
    for name, value in (
        ("{cluster}", on_cluster),
        ("{replicated}", "Replicated" if on_cluster else ""),
        ("{settings}", _REPLICATED_SETTINGS if on_cluster else _SETTINGS),
        ("{text_index}", _TEXT_INDEX if version >= _TEXT_INDEX_SINCE else _PLAIN_INDEX),
    ):
        statement = statement.replace(name, value)
    return statement
