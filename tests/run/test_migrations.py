"""The migrations: the document's tables on a fresh database, and every older one brought up with all that is in it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from alembic.script import ScriptDirectory
from psycopg.types.json import Jsonb

import forked
from agenttrace.run.postgres import pool as run_database
from agenttrace.run.postgres.pool import HEAD, SCHEMA, migrate
from agenttrace.run.states import (
    CacheStatus,
    CircuitState,
    ConversationEntry,
    JobStatus,
    MessageRole,
    RunStatus,
    TriggerType,
)
from run.fixtures import execute

Columns = dict[str, tuple[str, bool, str | None]]

#: What the document says of each table, as PostgreSQL spells it: type, may be null, default. ``id`` is a BIGSERIAL.
NOW, NUMBER, TEXT = "timestamp with time zone", "bigint", "text"
RUN_LOGS: Columns = {
    "site_id": (NUMBER, False, None),
    "app_type": ("character varying(30)", False, None),
    "trigger_type": ("character varying(20)", False, None),
    "member_id": (NUMBER, True, None),
    "request_prompt": (TEXT, True, None),
    "response_text": (TEXT, True, None),
    "tokens_used": ("integer", True, "0"),
    "latency_ms": ("integer", True, None),
    "status": ("character varying(20)", False, "'pending'::character varying"),
    "error_message": (TEXT, True, None),
    "session_id": ("character varying(100)", True, None),
    "created_at": (NOW, False, "now()"),
    "finished_at": (NOW, True, None),
}
TRIGGER_JOBS: Columns = {
    "site_id": (NUMBER, False, None),
    "event_type": ("character varying(30)", False, None),
    "connector_type": ("character varying(30)", True, "'feiqiu'::character varying"),
    "member_id": (NUMBER, True, None),
    "payload": ("jsonb", True, None),
    "status": ("character varying(20)", False, "'pending'::character varying"),
    # The document lets it be NULL; but "not forced" has to be one thing, or duplicates slip through.
    "is_forced": ("boolean", False, "false"),
    "app_chain": ("character varying(100)", True, None),
    "started_at": (NOW, True, None),
    "finished_at": (NOW, True, None),
    "error_message": (TEXT, True, None),
    "created_at": (NOW, False, "now()"),
    # Erratum 11.
    "event_date": ("date", False, None),
}
DOCUMENT: dict[str, Columns] = {
    "ai_run_logs": RUN_LOGS,
    "ai_trigger_jobs": TRIGGER_JOBS,
    "ai_conversations": {"session_id": ("character varying(100)", True, None)},
    "ai_cache": {
        "status": ("character varying(20)", True, "'valid'::character varying"),
        "expires_at": (NOW, True, None),
    },
}
#: Columns, uniqueness and condition of the document's indexes, the last one as erratum 11 has it.
INDEXES = {
    "idx_ai_run_logs_site_app": "INDEX ON ai_run_logs (site_id, app_type)",
    "idx_ai_run_logs_created": "INDEX ON ai_run_logs (created_at)",
    "idx_ai_run_logs_status": "INDEX ON ai_run_logs (status)",
    "idx_ai_trigger_jobs_site": "INDEX ON ai_trigger_jobs (site_id, event_type)",
    "idx_ai_trigger_jobs_status": "INDEX ON ai_trigger_jobs (status)",
    "idx_ai_trigger_jobs_dedup": "UNIQUE INDEX ON ai_trigger_jobs (event_type, member_id, site_id, event_date)"
    " NULLS NOT DISTINCT WHERE ((NOT is_forced) AND ((status)::text <> 'skipped_duplicate'::text))",
}
RUN_STATES = ["pending", "running", "success", "failed", "timeout", "budget_exceeded", "circuit_open", "rate_limited"]
JOB_STATES = ["pending", "running", "completed", "failed", "skipped_duplicate", "budget_exceeded"]
CACHE_STATES = ["valid", "expired", "invalidated", "generating"]

COLUMNS = """
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), NOT a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef AS d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
WHERE c.relnamespace = 'biz'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
"""
INDEX_TEXTS = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'biz'"
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'biz'::regnamespace AND contype NOT IN ('n', 't')
"""
OPTIONS = "SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'biz'::regnamespace AND relkind = 'r'"
TRIGGERS = "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal AND tgname LIKE 'ai_%'"
FUNCTIONS = "SELECT proname FROM pg_proc WHERE pronamespace = 'biz'::regnamespace"


@pytest.fixture
def empty_url(postgres_url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database in which nothing is yet."""
    name = "empty_" + re.sub(r"\W", "_", request.node.name)[:50].lower()
    execute(postgres_url, f"CREATE DATABASE {name}")
    yield urlsplit(postgres_url)._replace(path=f"/{name}").geturl()
    execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


def columns(url: str) -> dict[str, Columns]:
    tables: dict[str, Columns] = {}
    for table, column, *rest in execute(url, COLUMNS):
        tables.setdefault(table, {})[column] = tuple(rest)
    return tables


def shape(url: str) -> dict[str, Any]:
    """Everything about the tables that PostgreSQL knows, but the order of columns."""
    return {
        "columns": columns(url),
        "indexes": dict(execute(url, INDEX_TEXTS)),
        "constraints": sorted(execute(url, CONSTRAINTS)),
        "options": dict(execute(url, OPTIONS)),
        "triggers": dict(execute(url, TRIGGERS)),
    }


# -- a fresh database ---------------------------------------------------------------------------------------------


def test_a_fresh_database_gets_the_newest_revision(empty_url: str) -> None:
    """One call makes everything; the revision is the newest there is, and is known to those who look for it first."""
    migrate(empty_url)
    assert execute(empty_url, "SELECT version_num FROM biz.agenttrace_revision") == [(HEAD,)]
    script = ScriptDirectory(str(run_database._MIGRATIONS))
    assert script.get_current_head() == HEAD
    assert [found.revision for found in script.walk_revisions()] == [f"{n:04}" for n in range(int(HEAD), 0, -1)]
    assert execute(empty_url, "SELECT to_regclass('agenttrace_queue.procrastinate_jobs') IS NOT NULL") == [(True,)]


def test_migrating_again_changes_nothing(empty_url: str) -> None:
    """A database that is up to date stays exactly as it is."""
    migrate(empty_url)
    before = shape(empty_url)
    migrate(empty_url)
    migrate(empty_url, HEAD)
    assert shape(empty_url) == before


@pytest.mark.parametrize("table", sorted(DOCUMENT))
def test_the_documents_columns_are_there(module_database_url: str, table: str) -> None:
    """Each column of the document has its type, its default, and may be null where the document lets it."""
    found = columns(module_database_url)[table]
    assert {name: found[name] for name in DOCUMENT[table]} == DOCUMENT[table]
    assert found["id"] == (NUMBER, False, f"nextval('biz.{table}_id_seq'::regclass)")


def test_the_documents_columns_stand_in_its_order(module_database_url: str) -> None:
    """The document's columns come first and in its order, so that its INSERTs without names work."""
    for table in ("ai_run_logs", "ai_trigger_jobs"):
        wanted = list(DOCUMENT[table])
        found = execute(module_database_url, f"{COLUMNS} AND c.relname = '{table}' ORDER BY a.attnum")
        assert [column for _, column, *_ in found][: len(wanted) + 1] == ["id", *wanted]


def test_the_documents_indexes_are_there(module_database_url: str) -> None:
    """Each index of the document is on its columns, the one against duplicates as erratum 11 has it."""
    found = dict(execute(module_database_url, INDEX_TEXTS))
    for name, wanted in INDEXES.items():
        text = (
            found[name]
            .removeprefix("CREATE ")
            .replace(f"INDEX {name} ON biz.", "INDEX ON ")
            .replace(" USING btree", "")
        )
        assert text == wanted


INSERTS: dict[str, tuple[str, list[str]]] = {
    "ai_run_logs": (
        "INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, response_text, latency_ms, finished_at,"
        " error_message, status) VALUES (1, 'app3_clue', 'event', '', 1, now(), '', %s)",
        RUN_STATES,
    ),
    "ai_trigger_jobs": (
        "INSERT INTO biz.ai_trigger_jobs (site_id, event_type, event_date, is_forced, status)"
        " VALUES (1, 'consumption', now(), true, %s)",
        [*JOB_STATES, "cancelled"],
    ),
    "ai_cache": (
        "INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, status)"
        " VALUES ('app3_clue', 1, gen_random_uuid(), '{}', %s)",
        CACHE_STATES,
    ),
}


@pytest.mark.parametrize("table", sorted(INSERTS))
def test_the_states_are_those_of_the_document(module_database_url: str, table: str) -> None:
    """Each state of the document and errata can be stored, and nothing else."""
    sql, states = INSERTS[table]
    for state in states:
        execute(module_database_url, sql, state)
    for state in ("", "SUCCESS", "done"):
        with pytest.raises(psycopg.errors.CheckViolation):
            execute(module_database_url, sql, state)


@pytest.mark.parametrize(
    "change",
    [
        "status = 'success', response_text = NULL",
        "status = 'success', tokens_used = NULL",
        "status = 'success', latency_ms = NULL",
        "status = 'success', finished_at = NULL",
        "status = 'failed', error_message = NULL",
        "request_prompt = repeat('字', 2001)",
        "trigger_type = 'somebody'",
    ],
)
def test_a_run_log_that_lacks_what_its_state_needs_is_refused(module_database_url: str, change: str) -> None:
    """The database itself refuses rows that break properties 18 and 19."""
    sql, _ = INSERTS["ai_run_logs"]
    execute(module_database_url, sql, "running")
    with pytest.raises(psycopg.errors.CheckViolation):
        execute(module_database_url, f"UPDATE biz.ai_run_logs SET {change} WHERE status = 'running'")
    execute(module_database_url, "UPDATE biz.ai_run_logs SET request_prompt = repeat('字', 2000)")


def test_one_job_a_day_unless_forced_or_skipped(module_database_url: str) -> None:
    """The same event on the same day is refused, also without a member, unless it is forced or marked as skipped."""
    sql = (
        "INSERT INTO biz.ai_trigger_jobs (site_id, event_type, member_id, event_date, is_forced, status)"
        " VALUES (9, 'consumption', %s, '2026-03-01', %s, %s)"
    )
    for member in (7, None):
        execute(module_database_url, sql, member, False, "pending")
        for forced, status in ((False, "skipped_duplicate"), (True, "pending"), (True, "completed")):
            execute(module_database_url, sql, member, forced, status)
        for status in ("pending", "completed", "failed"):
            with pytest.raises(psycopg.errors.UniqueViolation):
                execute(module_database_url, sql, member, False, status)


def test_a_conversations_messages_go_with_it(module_database_url: str) -> None:
    """Messages belong to a conversation that exists, and are deleted with it."""
    [(conversation,)] = execute(
        module_database_url, "INSERT INTO biz.ai_conversations (user_id, site_id) VALUES ('u', 1) RETURNING id"
    )
    sql = "INSERT INTO biz.ai_messages (conversation_id, role, content) VALUES (%s, %s, '你好')"
    execute(module_database_url, sql, conversation, "user")
    with pytest.raises(psycopg.errors.CheckViolation):
        execute(module_database_url, sql, conversation, "tool")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        execute(module_database_url, sql, conversation + 1, "user")
    execute(module_database_url, "DELETE FROM biz.ai_conversations WHERE id = %s", conversation)
    assert execute(module_database_url, "SELECT count(*) FROM biz.ai_messages") == [(0,)]


# -- what the database is today ------------------------------------------------------------------------------------

SQL = Path(run_database.__file__).parent / "sql"


def test_the_tables_of_the_sql_file_are_those_of_the_migrations(module_database_url: str, empty_url: str) -> None:
    """``postgres/sql/tables.sql`` shows what is there today: columns, checks, keys, indexes and options."""
    execute(empty_url, f"CREATE SCHEMA {SCHEMA}")
    execute(empty_url, (SQL / "tables.sql").read_text(encoding="utf-8"))
    migrated, made = shape(module_database_url), shape(empty_url)
    for part in (migrated["columns"], migrated["options"]):
        del part["agenttrace_revision"]
    migrated["indexes"] = {k: v for k, v in migrated["indexes"].items() if "agenttrace_revision" not in k}
    migrated["constraints"] = [row for row in migrated["constraints"] if "agenttrace_revision" not in row[0]]
    del migrated["triggers"]
    for part, wanted in migrated.items():
        assert made[part] == wanted


CHECKS: dict[str, type[StrEnum]] = {
    "ai_breakers_state_check": CircuitState,
    "ai_cache_status_check": CacheStatus,
    "ai_conversations_entry_check": ConversationEntry,
    "ai_messages_role_check": MessageRole,
    "ck_ai_run_logs_status": RunStatus,
    "ck_ai_run_logs_trigger_type": TriggerType,
    "ck_ai_trigger_jobs_status": JobStatus,
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_states_of_a_column_are_those_of_the_code(module_database_url: str, name: str) -> None:
    """A CHECK constraint allows exactly the members of the enum."""
    sql = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s"
    [(check,)] = execute(module_database_url, sql, name)
    assert set(re.findall(r"'(\w+)'", check)) == set(CHECKS[name])


def definitions(url: str) -> dict[str, str]:
    """The functions and triggers of ours, as PostgreSQL has them, but the one that is made at run time."""
    functions = "SELECT p.oid::regprocedure::text, pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE pronamespace = %s"
    found = dict(execute(url, functions + "::regnamespace AND proname <> 'ai_business_day'", SCHEMA))
    return found | dict(execute(url, TRIGGERS))


def test_the_sql_files_are_what_the_migrations_leave(module_database_url: str, empty_url: str) -> None:
    """``postgres/sql`` is what a database has today: a change of a function there needs a revision."""
    execute(empty_url, f"CREATE SCHEMA {SCHEMA}")
    for path in sorted(SQL.glob("*.sql"), key=lambda path: path.stem != "tables"):
        execute(empty_url, path.read_text(encoding="utf-8"))
    assert definitions(empty_url) == definitions(module_database_url)


# -- older databases ----------------------------------------------------------------------------------------------

#: 00:30 in Shanghai, still the day before in UTC.
MIDNIGHT = datetime(2026, 2, 28, 16, 30, tzinfo=UTC)
BEFORE = datetime(2026, 2, 28, 15, 30, tzinfo=UTC)


def fill_0001(url: str) -> None:
    """Rows in all four tables of the first revision, among them several of one target, and of one member and day."""
    execute(
        url,
        "INSERT INTO biz.ai_conversations (id, user_id, site_id, entry, target_id, title, created_at)"
        " VALUES (41, 'u1', 1, 'task', 't9', '标题', %s), (42, 'u2', 1, 'general', NULL, NULL, %s)",
        MIDNIGHT,
        BEFORE,
    )
    execute(
        url,
        "INSERT INTO biz.ai_messages (conversation_id, role, content, tokens_used)"
        " VALUES (41, 'user', '你好', 0), (41, 'assistant', '您好', 12)",
    )
    results = (("7", 2, MIDNIGHT, None), ("7", 1, BEFORE, None), ("7", 3, MIDNIGHT, MIDNIGHT), ("8", 4, BEFORE, BEFORE))
    for target, number, at, end in results:
        execute(
            url,
            "INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, created_at, expires_at)"
            " VALUES ('app3_clue', 1, %s, %s, %s, %s)",
            target,
            Jsonb({"n": number}),
            at,
            end,
        )
    for member, summary, at in ((7, "a", MIDNIGHT), (7, "b", BEFORE), (7, "c", MIDNIGHT), (8, "d", MIDNIGHT)):
        execute(
            url,
            "INSERT INTO biz.member_retention_clue (site_id, member_id, summary, clues, created_at)"
            " VALUES (1, %s, %s, %s, %s)",
            member,
            summary,
            Jsonb([summary]),
            at,
        )


def fill_0002(url: str) -> None:
    """Rows in the tables of the second revision: ended, refused and open calls on two business days, and jobs."""
    for status, tokens, reserved, at in (
        ("success", 100, 0, BEFORE),
        ("success", 20, 50, MIDNIGHT),
        ("failed", 3, 0, MIDNIGHT),
        ("running", 0, 70, MIDNIGHT),
        ("rate_limited", 0, 0, MIDNIGHT),
    ):
        execute(
            url,
            "INSERT INTO biz.ai_run_logs (site_id, app_type, trigger_type, request_prompt, response_text,"
            " error_message, latency_ms, finished_at, status, tokens_used, tokens_reserved, created_at)"
            " VALUES (1, 'app3_clue', 'event', '提示', '{}', 'e', 5, now(), %s, %s, %s, %s)",
            status,
            tokens,
            reserved,
            at,
        )
    execute(
        url,
        "INSERT INTO biz.ai_trigger_jobs (site_id, event_type, member_id, payload, status, event_date, app_chain)"
        " VALUES (1, 'consumption', 7, '{\"a\": 1}', 'completed', '2026-03-01', 'app3→app8→app7'),"
        " (1, 'dws_completed', NULL, NULL, 'pending', '2026-03-01', 'app2')",
    )


def content(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the tables of ours, as JSON text by column."""
    return {
        table: execute(url, f"SELECT to_jsonb(t) FROM biz.{table} AS t ORDER BY to_jsonb(t)::text")
        for table in columns(url)
        if table != "agenttrace_revision"
    }


def contains(rows: list[tuple[Any, ...]], earlier: list[tuple[Any, ...]]) -> bool:
    """Whether each earlier row is there with all its values; columns may have come, and states been set."""
    return all(any(row[0].items() >= old[0].items() for row in rows) for old in earlier)


def test_an_upgrade_from_the_first_revision_loses_nothing(empty_url: str, module_database_url: str) -> None:
    """All rows of 0001 are there after the upgrade, with what the newer revisions say about them."""
    migrate(empty_url, "0001")
    fill_0001(empty_url)
    before = content(empty_url)
    migrate(empty_url)
    assert shape(empty_url) == shape(module_database_url), "the same tables as on a fresh database"
    after = content(empty_url)
    for table in ("ai_conversations", "ai_messages", "ai_cache"):
        assert len(after[table]) == len(before[table])
        assert contains(after[table], before[table])
    kept = after["member_retention_clue"] + after["member_retention_clue_replaced"]
    assert len(kept) == len(before["member_retention_clue"])
    assert contains(kept, before["member_retention_clue"])


def test_an_upgrade_sorts_out_what_was_there_several_times(empty_url: str) -> None:
    """The newest result of a target is valid; the newest clues of a member and business day stay, the others aside."""
    migrate(empty_url, "0001")
    fill_0001(empty_url)
    migrate(empty_url)
    assert execute(empty_url, "SELECT result_json->'n', status FROM biz.ai_cache ORDER BY 1") == [
        (1, "expired"),
        (2, "expired"),
        (3, "valid"),
        (4, "valid"),
    ]
    assert execute(
        empty_url, "SELECT member_id, summary, clue_date FROM biz.member_retention_clue ORDER BY summary"
    ) == [(7, "b", date(2026, 2, 28)), (7, "c", date(2026, 3, 1)), (8, "d", date(2026, 3, 1))]
    assert execute(empty_url, "SELECT summary FROM biz.member_retention_clue_replaced") == [("a",)]
    assert execute(empty_url, "SELECT id, session_id FROM biz.ai_conversations ORDER BY id") == [
        (41, f"conv_41_{int(MIDNIGHT.timestamp())}"),
        (42, f"conv_42_{int(BEFORE.timestamp())}"),
    ]


def test_an_upgrade_from_the_second_revision_loses_nothing(empty_url: str, module_database_url: str) -> None:
    """All rows of 0002 stay as they are, and the budget begins with the sums of the calls that are there."""
    migrate(empty_url, "0001")
    fill_0001(empty_url)
    migrate(empty_url, "0002")
    fill_0002(empty_url)
    before = content(empty_url)
    migrate(empty_url)
    after = content(empty_url)
    for table, rows in before.items():
        assert len(after[table]) == len(rows)
        assert contains(after[table], rows)
    assert shape(empty_url) == shape(module_database_url)
    days = execute(
        empty_url,
        "SELECT day, sum(used)::int, sum(failed)::int, sum(reserved)::int"
        " FROM biz.ai_budget_days GROUP BY 1 ORDER BY 1",
    )
    assert days == [(date(2026, 2, 28), 100, 0, 0), (date(2026, 3, 1), 20, 3, 70)]


@pytest.mark.parametrize(("revision", "fill"), [("0001", fill_0001), ("0002", fill_0002)])
def test_a_downgrade_gives_the_older_tables_back(empty_url: str, revision: str, fill: Callable[[str], None]) -> None:
    """Back at an older revision its tables are as they were, with their rows; and up again nothing is missing."""
    migrate(empty_url, "0001")
    if revision == "0002":
        migrate(empty_url, "0002")
    fill(empty_url)
    rows, tables, functions = content(empty_url), shape(empty_url), execute(empty_url, FUNCTIONS)
    migrate(empty_url)
    newest = shape(empty_url)
    assert newest != tables
    migrate(empty_url, revision)
    assert execute(empty_url, "SELECT version_num FROM biz.agenttrace_revision") == [(revision,)]
    assert shape(empty_url) == tables
    assert content(empty_url) == rows
    assert execute(empty_url, FUNCTIONS) == functions == []
    assert execute(empty_url, "SELECT to_regnamespace('agenttrace_queue')") == [(None,)]
    migrate(empty_url)
    assert shape(empty_url) == newest


def test_the_version_before_goes_on_working_beside_the_newest(empty_url: str) -> None:
    """Of two servers one may be older: its call of the admission has no limit of the application, and is understood."""
    migrate(empty_url, "0006")
    older = execute(empty_url, "SELECT pronargs::int FROM pg_proc WHERE proname = 'ai_admit'")[0][0]
    before = execute(empty_url, FUNCTIONS)
    migrate(empty_url)
    newer = execute(empty_url, "SELECT pronargs - pronargdefaults FROM pg_proc WHERE proname = 'ai_admit'")[0][0]
    assert newer < older
    migrate(empty_url, "0006")
    assert sorted(execute(empty_url, FUNCTIONS)) == sorted(before)


def test_a_downgrade_drops_only_what_the_older_tables_cannot_hold(empty_url: str) -> None:
    """A cached row without a result, which 0001 does not know, goes; all others stay."""
    migrate(empty_url)
    execute(
        empty_url,
        "INSERT INTO biz.ai_cache (cache_type, site_id, target_id, result_json, status) VALUES"
        " ('a', 1, '1', NULL, 'generating'), ('a', 1, '2', '{}', 'valid'), ('a', 1, '2', '{}', 'expired')",
    )
    migrate(empty_url, "0001")
    assert execute(empty_url, "SELECT target_id FROM biz.ai_cache") == [("2",), ("2",)]


# -- all at once, and in bad weather ------------------------------------------------------------------------------


def test_several_processes_migrate_at_once(empty_url: str, module_database_url: str) -> None:
    """Processes that start together on an older database all come up, and it is migrated once."""
    migrate(empty_url, "0001")
    fill_0001(empty_url)
    program = "import sys; from agenttrace.run.postgres.pool import migrate; sys.stdin.readline(); migrate(sys.argv[1])"
    processes = [
        forked.popen(
            [sys.executable, "-c", program, empty_url],
            late=True,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ends = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, ends
    assert shape(empty_url) == shape(module_database_url)
    assert execute(empty_url, "SELECT version_num FROM biz.agenttrace_revision") == [(HEAD,)]


def test_a_migration_that_fails_leaves_the_database_as_it_was(empty_url: str) -> None:
    """When a revision cannot be applied nothing of it, nor of those before it in the same run, stays."""
    migrate(empty_url, "0001")
    fill_0001(empty_url)
    execute(empty_url, "CREATE TABLE biz.ai_breakers (somebody_elses INTEGER)")
    before, rows = shape(empty_url), content(empty_url)
    with pytest.raises(Exception, match="already exists"):
        migrate(empty_url)
    assert shape(empty_url) == before
    assert content(empty_url) == rows
    execute(empty_url, "DROP TABLE biz.ai_breakers")
    migrate(empty_url)
    assert execute(empty_url, "SELECT version_num FROM biz.agenttrace_revision") == [(HEAD,)]
