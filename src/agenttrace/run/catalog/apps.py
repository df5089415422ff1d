"""Applications, and the chains of calls that events start, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict

from agenttrace.run.guards.breaker import BreakerTable
from agenttrace.run.results.cache import CacheRule
from agenttrace.run.upstream.calls import RateRule
from agenttrace.run.upstream.providers import Endpoint, ProviderName
from agenttrace.run.upstream.wire import estimate_tokens

#: What the column for the text of a chain holds.
_CHAIN_LIMIT = 100


class Sizes(TypedDict):
    """The sizes of a call in tokens."""

    prompt_tokens: int
    estimate: int
    ceiling: int


@dataclass(frozen=True, kw_only=True)
class App:
    """An application: how it is called, and how its results are cached."""

    #: Its name in chains, such as ``app3``.
    key: str
    app_type: str
    #: In the language of the catalog.
    title: str
    #: Its id for the breaker and the provider: DashScope's id, empty while its variable is not set.
    app_id: str
    rate: RateRule
    #: None: results are not cached.
    cache: CacheRule | None
    #: Whose result it is in the cache: ``dimension``, ``member``, ``member:coach`` or ``site``.
    target: str
    #: The applications whose results its prompt holds.
    inputs: tuple[str, ...]
    prompt: str
    #: Tokens that a call is expected to use beside its prompt, until calls have shown better.
    expected_tokens: int
    #: The most tokens that one call can take beside its prompt.
    max_tokens: int
    #: Tokens that its model takes in; three quarters of them are for the history of a chat.
    context_tokens: int
    stream: bool
    #: Whether its results are written to ``member_retention_clue``.
    clues: bool
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: None: its breaker has the rule of the settings.
    breaker: BreakerTable | None = None
    #: At most so many calls of it, by all users and stores together; None: only ``rate`` counts.
    rate_limit: RateRule | None = None
    #: Its title by language, where the catalog has several.
    titles: Mapping[str, str] = field(default_factory=dict)
    #: Its prompt by language, where the catalog has several.
    prompts: Mapping[str, str] = field(default_factory=dict)
    #: Whether the catalog is complete without its variables.
    is_optional: bool = False
    #: The variable that holds DashScope's id; None where the catalog itself has it.
    id_variable: str | None = None
    #: The model that is called; None: an application of DashScope.
    endpoint: Endpoint | None = None
    #: The variables that it needs, and those of them that are not set.
    variables: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def provider(self) -> ProviderName:
        """Who runs it."""
        return "dashscope" if self.endpoint is None else "openai"

    @property
    def account(self) -> tuple[str, ...]:
        """Identifies the key that it is called with: applications with an equal account share one key."""
        return ("dashscope",) if self.endpoint is None else (self.endpoint.base_url, self.endpoint.api_key_env or "")

    @property
    def has_sessions(self) -> bool:
        """Whether the provider remembers what was said before."""
        return self.endpoint is None

    def tokens_of(self, prompt: str) -> Sizes:
        """What a call with this prompt will take: the prompt, all of it, and at most beside the prompt."""
        asked = estimate_tokens(prompt) + (estimate_tokens(self.endpoint.system) if self.endpoint else 0)
        return {"prompt_tokens": asked, "estimate": asked + self.expected_tokens, "ceiling": self.max_tokens}


@dataclass(frozen=True, kw_only=True)
class PlannedStep:
    """One call in a chain."""

    #: ``app3`` or ``app2:today``.
    name: str
    app: str
    #: The steps that have to be over before it begins.
    after: tuple[str, ...] = ()
    dimension: str | None = None


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Lanes that run side by side; the steps of a lane run one after another."""

    lanes: tuple[tuple[PlannedStep, ...], ...]

    @property
    def steps(self) -> tuple[PlannedStep, ...]:
        """All steps, lane by lane."""
        return tuple(step for lane in self.lanes for step in lane)

    @property
    def text(self) -> str:
        """``app3→app8→app7+app4→app5``; lanes that differ in the dimension alone as ``app2×8``."""
        counts: dict[str, int] = {}
        for lane in self.lanes:
            text = "→".join(step.app if step.dimension else step.name for step in lane)
            counts[text] = counts.get(text, 0) + 1
        text = "+".join(name if count == 1 else f"{name}×{count}" for name, count in counts.items())
        return text if len(text) <= _CHAIN_LIMIT else text[: _CHAIN_LIMIT - 1] + "…"


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A lane as the catalog has it."""

    apps: tuple[str, ...]
    #: The lane is run only where the payload has this key, with something other than null.
    condition: str | None = None
    each_dimension: bool = False

    def applies(self, payload: Mapping[str, Any]) -> bool:
        """Whether an event with this payload runs it."""
        return self.condition is None or payload.get(self.condition) is not None
