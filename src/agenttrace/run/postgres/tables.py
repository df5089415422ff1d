"""The tables of the run store as SQLAlchemy sees them, to build lists with changing filters; migrations make them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    Uuid,
    make_url,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, JSONB
from sqlalchemy.sql import ClauseElement

from agenttrace.run.states import (
    CacheStatus,
    CircuitState,
    ConversationEntry,
    JobStatus,
    MessageRole,
    RunStatus,
    TriggerType,
)

SCHEMA = "biz"
#: Procrastinate's tables: apart, so that a database shared with others has no clash of names.
QUEUE_SCHEMA = "agenttrace_queue"

metadata = MetaData(schema=SCHEMA)

_DIALECT = make_url("postgresql+psycopg://").get_dialect()()


def rendered(statement: ClauseElement) -> tuple[str, dict[str, Any]]:
    """SQL text and parameters of a statement, as ``Database.rows`` takes them."""
    compiled = statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
    return str(compiled), dict(compiled.params)


def _id() -> Column[int]:
    return Column("id", BigInteger, primary_key=True)


def _moment(name: str, *, given: bool = True) -> Column[datetime]:
    """A point in time; a ``given`` one is now unless said otherwise."""
    if given:
        return Column(name, DateTime(timezone=True), nullable=False, server_default=text("now()"))
    return Column(name, DateTime(timezone=True))


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=text("false"))


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default=text("0"))


def _one_of(column: str, states: type[StrEnum], name: str) -> CheckConstraint:
    values = ", ".join(f"'{state}'" for state in states)
    return CheckConstraint(f"{column} IN ({values})", name=name)


conversations = Table(
    "ai_conversations",
    metadata,
    _id(),
    Column("user_id", String(100), nullable=False),
    Column("site_id", BigInteger, nullable=False),
    Column("entry", String(20), nullable=False, server_default="general"),
    Column("target_id", String(100)),
    Column("title", String(200)),
    _moment("created_at"),
    _moment("last_message_at"),
    Column("session_id", String(100)),
    Column("cloud_session_id", String(100)),
    _count("cloud_rounds"),
    _moment("cloud_used_at", given=False),
    _flag("local_history"),
    Column("summary", Text),
    Column("summary_until", BigInteger, nullable=False, server_default=text("0")),
    _count("cloud_tokens"),
    _one_of("entry", ConversationEntry, "ai_conversations_entry_check"),
    Index("idx_ai_conversations_reuse", "user_id", "site_id", "entry", "target_id", text("last_message_at DESC")),
    Index("idx_ai_conversations_session", "session_id", unique=True),
)

messages = Table(
    "ai_messages",
    metadata,
    _id(),
    Column(
        "conversation_id",
        BigInteger,
        ForeignKey(conversations.c.id, name="ai_messages_conversation_id_fkey", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("role", String(20), nullable=False),
    Column("content", Text, nullable=False),
    Column("tokens_used", Integer, server_default=text("0")),
    _moment("created_at"),
    Column("run_log_id", BigInteger),
    _one_of("role", MessageRole, "ai_messages_role_check"),
    Index("idx_ai_messages_conversation", "conversation_id", "id"),
)

cache = Table(
    "ai_cache",
    metadata,
    _id(),
    Column("cache_type", String(30), nullable=False),
    Column("site_id", BigInteger, nullable=False),
    Column("target_id", String(100), nullable=False),
    Column("result_json", JSONB),
    Column("triggered_by", String(100)),
    _moment("created_at"),
    _moment("expires_at", given=False),
    Column("status", String(20), server_default="valid"),
    _one_of("status", CacheStatus, "ai_cache_status_check"),
    CheckConstraint("result_json IS NOT NULL OR status IN ('generating', 'expired')", name="ck_ai_cache_result"),
    Index("idx_ai_cache_target", "cache_type", "site_id", "target_id", text("created_at DESC")),
    Index(
        "idx_ai_cache_valid",
        "cache_type",
        "site_id",
        "target_id",
        unique=True,
        postgresql_where=text("status = 'valid'"),
    ),
    Index(
        "idx_ai_cache_generating",
        "cache_type",
        "site_id",
        "target_id",
        unique=True,
        postgresql_where=text("status = 'generating'"),
    ),
    Index("idx_ai_cache_age", "cache_type", "created_at", postgresql_include=["id", "status"]),
    Index("idx_ai_cache_expiry", "expires_at", postgresql_where=text("status IN ('valid', 'generating')")),
)


def _clue_columns() -> list[Column[Any]]:
    return [
        Column("site_id", BigInteger, nullable=False),
        Column("member_id", BigInteger, nullable=False),
        Column("summary", Text, nullable=False),
        Column("clues", JSONB, nullable=False, server_default=text("'[]'")),
        Column("source", String(30), nullable=False, server_default="app8_consolidate"),
        _moment("created_at"),
    ]


retention_clues = Table(
    "member_retention_clue",
    metadata,
    _id(),
    *_clue_columns(),
    Column("clue_date", Date, nullable=False),
    Column("trigger_job_id", BigInteger),
    _moment("updated_at"),
    Index("idx_member_retention_clue_member", "site_id", "member_id"),
    Index("idx_member_retention_clue_day", "site_id", "member_id", "clue_date", unique=True),
)

#: What an upgrade found beyond one row a member and day.
replaced_clues = Table(
    "member_retention_clue_replaced",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    *_clue_columns(),
)

run_logs = Table(
    "ai_run_logs",
    metadata,
    _id(),
    Column("site_id", BigInteger, nullable=False),
    Column("app_type", String(30), nullable=False),
    Column("trigger_type", String(20), nullable=False),
    Column("member_id", BigInteger),
    Column("request_prompt", Text),
    Column("response_text", Text),
    Column("tokens_used", Integer, server_default=text("0")),
    Column("latency_ms", Integer),
    Column("status", String(20), nullable=False, server_default="pending"),
    Column("error_message", Text),
    Column("session_id", String(100)),
    _moment("created_at"),
    _moment("finished_at", given=False),
    Column("call_key", Uuid, unique=True),
    Column("process_id", Uuid),
    Column("user_id", String(100)),
    Column("conversation_id", BigInteger),
    Column("trigger_job_id", BigInteger),
    Column("step", String(60)),
    _count("tokens_reserved"),
    _flag("tokens_estimated"),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("model", String(100)),
    Column("request_id", String(100)),
    _count("attempts"),
    _count("tokens_prompt"),
    _count("tokens_ceiling"),
    _one_of("trigger_type", TriggerType, "ck_ai_run_logs_trigger_type"),
    CheckConstraint("char_length(request_prompt) <= 2000", name="ck_ai_run_logs_prompt"),
    _one_of("status", RunStatus, "ck_ai_run_logs_status"),
    CheckConstraint(
        "status <> 'success' OR (response_text IS NOT NULL AND tokens_used IS NOT NULL AND latency_ms IS NOT NULL "
        "AND finished_at IS NOT NULL)",
        name="ck_ai_run_logs_success",
    ),
    CheckConstraint("status <> 'failed' OR error_message IS NOT NULL", name="ck_ai_run_logs_failed"),
    Index("idx_ai_run_logs_site_app", "site_id", "app_type"),
    Index("idx_ai_run_logs_created", "created_at"),
    Index("idx_ai_run_logs_status", "status"),
    Index("idx_ai_run_logs_job", "trigger_job_id", postgresql_where=text("trigger_job_id IS NOT NULL")),
    Index("idx_ai_run_logs_open", "process_id", postgresql_where=text("status IN ('pending', 'running')")),
    Index(
        "idx_ai_run_logs_step_done",
        "trigger_job_id",
        "step",
        unique=True,
        postgresql_where=text("status = 'success' AND trigger_job_id IS NOT NULL"),
    ),
)

trigger_jobs = Table(
    "ai_trigger_jobs",
    metadata,
    _id(),
    Column("site_id", BigInteger, nullable=False),
    Column("event_type", String(30), nullable=False),
    Column("connector_type", String(30), server_default="feiqiu"),
    Column("member_id", BigInteger),
    Column("payload", JSONB),
    Column("status", String(20), nullable=False, server_default="pending"),
    _flag("is_forced"),
    Column("app_chain", String(100)),
    _moment("started_at", given=False),
    _moment("finished_at", given=False),
    Column("error_message", Text),
    _moment("created_at"),
    Column("event_date", Date, nullable=False),
    _count("claim"),
    Column("rerun_of", BigInteger),
    _flag("cancel_requested"),
    Column("schedule", String(60)),
    _one_of("status", JobStatus, "ck_ai_trigger_jobs_status"),
    Index("idx_ai_trigger_jobs_site", "site_id", "event_type"),
    Index(
        "idx_ai_trigger_jobs_dedup",
        "event_type",
        "member_id",
        "site_id",
        "event_date",
        unique=True,
        postgresql_nulls_not_distinct=True,
        postgresql_where=text("NOT is_forced AND status <> 'skipped_duplicate'"),
    ),
    Index("idx_ai_trigger_jobs_status", "status"),
    Index("idx_ai_trigger_jobs_created", "created_at"),
)

schedules = Table(
    "ai_schedules",
    metadata,
    Column("name", String(60), primary_key=True),
    Column("last_due", DateTime(timezone=True), nullable=False),
)

processes = Table(
    "ai_processes",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("role", String(20), nullable=False),
    Column("host", String(200), nullable=False),
    Column("pid", Integer, nullable=False),
    _moment("started_at"),
    _moment("seen_at"),
)

breakers = Table(
    "ai_breakers",
    metadata,
    Column("app_id", String(100), primary_key=True),
    Column("state", String(10), nullable=False, server_default="closed"),
    _count("failure_count"),
    _moment("last_failure_at", given=False),
    _moment("changed_at"),
    _flag("held"),
    Column("probe_key", Uuid),
    _moment("probe_until", given=False),
    _one_of("state", CircuitState, "ai_breakers_state_check"),
)

rate_windows = Table(
    "ai_rate_windows",
    metadata,
    Column("scope", String(20), primary_key=True),
    Column("key", String(100), primary_key=True),
    Column("span", INTERVAL, primary_key=True),
    Column("hits", ARRAY(DateTime(timezone=True)), nullable=False, server_default=text("'{}'")),
    _moment("last_at"),
    postgresql_with={"fillfactor": 70},
)


def _tokens(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=text("0"))


budget_days = Table(
    "ai_budget_days",
    metadata,
    Column("day", Date, primary_key=True),
    Column("slot", SmallInteger, primary_key=True, autoincrement=False),
    _tokens("used"),
    _tokens("failed"),
    _tokens("reserved"),
    _tokens("ceiling"),
    postgresql_with={"fillfactor": 50},
)

app_sizes = Table(
    "ai_app_sizes",
    metadata,
    Column("app_type", String(30), primary_key=True),
    Column("day", Date, primary_key=True),
    Column("largest", Integer, nullable=False),
)

business_zone = Table(
    "ai_business_zone",
    metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("zone", String(60), nullable=False),
    CheckConstraint("one", name="ai_business_zone_one_check"),
)
