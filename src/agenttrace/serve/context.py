"""What the endpoints of the console work with, made once for an application and closed with it."""

from __future__ import annotations

from dataclasses import dataclass

from agenttrace.config import Settings
from agenttrace.run.engine import Engine
from agenttrace.serve.access.store import AccessStore
from agenttrace.serve.api.hub import Hub
from agenttrace.serve.api.session_index import SessionIndex
from agenttrace.serve.api.store import TraceReader
from agenttrace.serve.health import Life
from agenttrace.serve.intake.writer import SpanWriter
from agenttrace.serve.metrics import Metrics


@dataclass(frozen=True, kw_only=True)
class Context:
    """The parts, all open."""

    settings: Settings
    reader: TraceReader
    index: SessionIndex
    hub: Hub
    #: None where the run half does not run; ``problem`` says why.
    engine: Engine | None
    problem: str | None
    life: Life
    metrics: Metrics
    access: AccessStore
    #: What programs send goes through it.
    intake: SpanWriter
    #: The host that the server listens on.
    bind: str

    def close(self) -> None:
        """Let go of the files, after the last answer."""
        self.intake.close()
        self.index.close()
        self.reader.close()
        self.access.close()
