"""What the endpoints use, made once for an application and closed with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agenttrace.config import Settings
from agenttrace.serve.access.access_store import AccessStore
from agenttrace.serve.api.live.hub import Hub
from agenttrace.serve.api.sessions.session_index import SessionIndex
from agenttrace.serve.api.trace_reader import TraceReader
from agenttrace.serve.health import Life
from agenttrace.serve.intake.span_log import SpanWriter
from agenttrace.serve.metrics import Metrics
from agenttrace.serve.team.storing import Storing

if TYPE_CHECKING:
    from agenttrace.run.engine import Engine


@dataclass(frozen=True, kw_only=True)
class RunHalf:
    """The engine of a process, or the reason why it has none."""

    engine: Engine | None = None
    problem: str | None = None
    #: Variables without which no application can be called.
    missing: tuple[str, ...] = ()
    #: False where no application is configured, and none was run before: that is no problem.
    used: bool = True


@dataclass(frozen=True, kw_only=True)
class ServerContext:
    """The parts, all open."""

    settings: Settings
    reader: TraceReader
    index: SessionIndex
    hub: Hub
    run_half: RunHalf
    life: Life
    metrics: Metrics
    access: AccessStore
    #: Writes spans of other programs.
    intake: SpanWriter
    #: The host that the server listens on.
    bind: str
    #: Stores what machines send, where this is the server of a team.
    storing: Storing | None = None

    @property
    def engine(self) -> Engine | None:
        """The engine, where the run half runs."""
        return self.run_half.engine

    @property
    def team(self) -> str | None:
        """The name of the team, which may have none; ``None`` where this is no team's server."""
        return self.settings.team.name or (None if self.storing is None else "")

    def close(self) -> None:
        """Close the files, after the last answer."""
        self.intake.close()
        if self.storing is not None:
            self.storing.close()
        self.index.close()
        self.reader.close()
        self.access.close()
