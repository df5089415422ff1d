"""The names that the specification of the run half gives: where each is, and with which parameters."""

from __future__ import annotations

import importlib
import inspect
from enum import Enum
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from agenttrace.serve.triggers import triggers_router

#: Name → module, the object in it, and its parameters as the document has them. Everything is ``async`` where the
#: document is not, and what talks to PostgreSQL takes the database first.
NAMES: dict[str, tuple[str, str, list[str]]] = {
    "CircuitBreaker": (
        "agenttrace.run.guards.breaker",
        "CircuitBreaker",
        ["database", "failure_threshold=5", "recovery_timeout=60.0"],
    ),
    "check": ("agenttrace.run.guards.breaker", "CircuitBreaker.check", ["self", "app_id"]),
    "record_success": ("agenttrace.run.guards.breaker", "CircuitBreaker.record_success", ["self", "app_id"]),
    "record_failure": ("agenttrace.run.guards.breaker", "CircuitBreaker.record_failure", ["self", "app_id"]),
    "check_user_rate": (
        "agenttrace.compat.rate_limit",
        "RateLimiter.check_user_rate",
        ["self", "user_id", "limit=10", "window_seconds=60"],
    ),
    "check_store_rate": (
        "agenttrace.compat.rate_limit",
        "RateLimiter.check_store_rate",
        ["self", "site_id", "limit=100", "window_seconds=3600"],
    ),
    "BudgetTracker": (
        "agenttrace.run.guards.budget",
        "BudgetTracker",
        ["database", "daily_limit=100000", "monthly_limit=2000000"],
    ),
    "check_budget": ("agenttrace.run.guards.budget", "BudgetTracker.check_budget", ["self"]),
    "BudgetStatus": (
        "agenttrace.run.guards.budget",
        "BudgetStatus",
        ["allowed", "daily_used", "monthly_used", "reason=None"],
    ),
    "handle_trigger": ("agenttrace.run.jobs.dispatch", "AIDispatcher.handle_trigger", ["self", "event"]),
    "_execute_chain": ("agenttrace.run.jobs.dispatch", "AIDispatcher._execute_chain", ["self", "job"]),
    "_run_step": ("agenttrace.run.jobs.chain", "ChainRun._run_step", ["self", "step"]),
    "fire_event": ("agenttrace.run.jobs.dispatch", "fire_event", ["event_type", "site_id"]),
    "from_env": ("agenttrace.run.catalog.config", "AIConfig.from_env", []),
    "verify_internal_token": ("agenttrace.serve.auth", "verify_internal_token", ["request", "expected"]),
    "TriggerRequest": (
        "agenttrace.serve.triggers",
        "TriggerRequest",
        ["event_type", "connector_type", "site_id", "member_id", "payload"],
    ),
    "create_log": (
        "agenttrace.compat.run_log",
        "AIRunLogService.create_log",
        ["self", "site_id", "app_type", "trigger_type", "details"],
    ),
    "update_running": ("agenttrace.compat.run_log", "AIRunLogService.update_running", ["self", "log_id"]),
    "update_success": (
        "agenttrace.compat.run_log",
        "AIRunLogService.update_success",
        ["self", "log_id", "response_text", "tokens_used", "latency_ms"],
    ),
    "update_failed": (
        "agenttrace.compat.run_log",
        "AIRunLogService.update_failed",
        ["self", "log_id", "error_message", "latency_ms"],
    ),
    "update_timeout": ("agenttrace.compat.run_log", "AIRunLogService.update_timeout", ["self", "log_id", "latency_ms"]),
    "get_daily_token_usage": ("agenttrace.compat.run_log", "AIRunLogService.get_daily_token_usage", ["self"]),
    "get_monthly_token_usage": ("agenttrace.compat.run_log", "AIRunLogService.get_monthly_token_usage", ["self"]),
    "make_session_id": (
        "agenttrace.compat.conversation",
        "make_session_id",
        ["conversation_id", "created_timestamp"],
    ),
    "should_reuse": ("agenttrace.compat.conversation", "should_reuse", ["entry", "age"]),
}


def found(module: str, path: str) -> Any:  # noqa: ANN401 - whatever has that name
    value: Any = importlib.import_module(module)
    for name in path.split("."):
        value = inspect.getattr_static(value, name) if name.startswith("_") else getattr(value, name)
    return value


@pytest.mark.parametrize("name", NAMES)
def test_parameters(name: str) -> None:
    """Parameter names, order and defaults begin as the document's; what comes after has a default, or is a keyword."""
    module, path, expected = NAMES[name]
    parameters = list(inspect.signature(found(module, path)).parameters.values())
    plain = not inspect.isclass(found(module, path)) or path != "TriggerRequest"
    shown = [
        each.name if each.default is each.empty or not plain else f"{each.name}={each.default}" for each in parameters
    ]
    assert shown[: len(expected)] == expected
    for each in parameters[len(expected) :]:
        assert each.default is not each.empty or each.kind in (each.KEYWORD_ONLY, each.VAR_KEYWORD)


@pytest.mark.parametrize(
    "name", ["_call_with_retry", "compute_fingerprint", "trigger_ai_event", "verify_internal_token", "_check_dedup"]
)
def test_names_that_differ_are_documented(name: str) -> None:
    """What has another place or shape here is named in the sections "Differences from the plan"."""
    page = (Path(__file__).parents[1] / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    parts = page.split("## Differences from the plan")[1:]
    assert any(f"`{name}" in part.partition("\n# ")[0] for part in parts)


def test_the_trigger_endpoint_has_the_name_of_the_document() -> None:
    """``trigger_ai_event`` is the function behind the POST, and so the name in the OpenAPI schema."""
    routes = triggers_router(MagicMock(), MagicMock()).routes
    assert "trigger_ai_event" in {getattr(route, "name", "") for route in routes}


def test_the_states_of_the_circuit_breaker() -> None:
    """``CircuitState`` is an enum with the document's members."""
    states = found("agenttrace.run.guards.breaker", "CircuitState")
    assert issubclass(states, Enum)
    assert {each.name: each.value for each in states} == {
        "CLOSED": "closed",
        "OPEN": "open",
        "HALF_OPEN": "half_open",
    }


def test_the_errors_of_the_document() -> None:
    """The hierarchy of the exceptions is the document's."""
    errors = importlib.import_module("agenttrace.run.errors")
    parents = {
        "DashScopeApiError": "DashScopeError",
        "DashScopeAuthError": "DashScopeApiError",
        "DashScopeTimeoutError": "DashScopeApiError",
        "DashScopeJsonParseError": "DashScopeError",
        "CircuitOpenError": "DashScopeError",
        "RateLimitExceededError": "DashScopeError",
        "BudgetExceededError": "DashScopeError",
    }
    for name, parent in parents.items():
        assert issubclass(getattr(errors, name), getattr(errors, parent)), name
