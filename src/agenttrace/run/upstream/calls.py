"""One call of an application in plain values: the request and the outcome."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

#: What the run log stores of a prompt.
PROMPT_LIMIT = 2000
#: How the ids of sessions begin that rules have caused.
RULE_SESSION = "rule-"


@dataclass(frozen=True, kw_only=True, slots=True)
class RateRule:
    """At most ``limit`` calls in ``seconds`` for each key of a scope."""

    #: ``user``, ``store`` or ``app``.
    scope: str
    limit: int
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRequest:
    """Everything that is known before the call; its ``key`` makes asking twice harmless."""

    #: What the provider and the breaker know the application by.
    app_id: str
    #: Our name for it, such as ``app3_clue``.
    app_type: str
    #: ``user``, ``scheduled``, ``event`` or ``forced``.
    trigger_type: str
    site_id: int
    prompt: str
    #: The limit of its user or store.
    rate: RateRule
    #: Tokens that the call is expected to use, all in all, until calls of the application have shown better.
    estimate: int
    #: The part of the estimate that is the prompt.
    prompt_tokens: int = 0
    #: The most that the call may take beside its prompt, as far as is known.
    ceiling: int = 0
    #: The limit for all calls of the application; None: there is none.
    app_rate: RateRule | None = None
    #: Seconds that it may wait for its turn while little is left of the budget.
    patience: float = 0.0
    member_id: int | None = None
    user_id: str | None = None
    conversation_id: int | None = None
    #: The session of the trace: ``conv_…``, ``job_…`` or ``rule-…``.
    session_id: str | None = None
    job_id: int | None = None
    #: The step of the chain, such as ``app3`` or ``app2:today``.
    step: str | None = None
    #: Which taking of the job this is; a later one turns this caller away.
    claim: int | None = None
    key: uuid.UUID = field(default_factory=uuid.uuid4)

    @property
    def late_key(self) -> uuid.UUID:
        """The key of the row that a result gets whose own row was closed for lost meanwhile."""
        return uuid.uuid5(self.key, "late")

    @property
    def rate_key(self) -> str:
        """Whose window it is."""
        return str(self.user_id if self.rate.scope == "user" else self.site_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class CallOutcome:
    """How an admitted call ended."""

    #: ``success``, ``failed`` or ``timeout``.
    status: str
    latency_ms: int
    response_text: str | None = None
    error_message: str | None = None
    #: Tokens of all attempts, also of those that failed.
    tokens_used: int = 0
    tokens_estimated: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    #: The part of the input that the provider had cached; only the trace has it.
    cached_tokens: int = 0
    model: str | None = None
    request_id: str = ""
    attempts: int = 1
