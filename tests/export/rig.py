"""A store that is recorded into line by line, and destinations whose faults are chosen by the test."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from agenttrace.config import ExportSettings, Settings, ensure_home
from agenttrace.destinations import DestinationSettings
from agenttrace.export.assembly import Assembly, Texts
from agenttrace.export.courier import Courier
from agenttrace.export.destination import Delivery, Destination
from agenttrace.export.journal import Journal
from agenttrace.export.sealing import Sealer, targets
from agenttrace.export.span import ExportSpan
from agenttrace.masking import Mask
from agenttrace.prices.costing import Cashier
from agenttrace.prices.table import PriceTable
from agenttrace.record.formats import FACTS
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.session_texts import SessionTexts
from agenttrace.store.exports import STATES, State
from agenttrace.store.sqlite.store import SqliteStore

DATA = Path(__file__).resolve().parents[1] / "data"
SAMPLES = ("claude-code-2.1.197/projects", "codex-0.166.0/sessions", "kimi-cli-1.49.0", "kimi-code-2.1.0", "native")
#: When the made-up sessions happen, in seconds: long ago.
NOW = 1_700_000_000.0


def target(name: str = "there", **changes: Any) -> DestinationSettings:  # noqa: ANN401 - any setting
    """A destination that takes everything from the beginning."""
    fields: dict[str, Any] = {"name": name, "type": "otlp", "url": "http://127.0.0.1:1/v1/traces", "start": "all"}
    return DestinationSettings(**(fields | changes))


def stored_texts() -> Texts:
    """The texts of spans, read from the recorded lines."""
    texts = SessionTexts()
    return texts.contents


class Shelf:
    """A destination in memory: it stores spans, and fails as ordered."""

    def __init__(self, *, ignores_repeats: bool = False, can_read_back: bool = False, max_spans: int = 500) -> None:
        self.ignores_repeats = ignores_repeats
        self.can_read_back = can_read_back
        self.accepted_is_stored = True
        self.max_spans = max_spans
        self.spans: list[ExportSpan] = []
        self.requests: list[list[ExportSpan]] = []
        #: What happens to the next requests; afterwards all goes well.
        self.faults: list[Callable[[Shelf, Sequence[ExportSpan]], Delivery]] = []
        self.always: Callable[[Shelf, Sequence[ExportSpan]], Delivery | None] = lambda shelf, spans: None

    async def send(self, spans: Sequence[ExportSpan]) -> Delivery:
        self.requests.append(list(spans))
        found = self.always(self, spans)
        if found is not None:
            return found
        if self.faults:
            return self.faults.pop(0)(self, spans)
        self.keep(spans)
        return Delivery(verdict="accepted", sent_bytes=len(spans))

    def keep(self, spans: Iterable[ExportSpan]) -> None:
        for span in spans:
            if not self.ignores_repeats or span.span_id not in self.ids:
                self.spans.append(span)

    async def present(self, spans: Sequence[ExportSpan]) -> Set[bytes] | None:
        return {span.span_id for span in self.spans} & {span.span_id for span in spans}

    async def check(self) -> str:
        return ""

    async def close(self) -> None:
        pass

    @property
    def ids(self) -> Counter[bytes]:
        return Counter(span.span_id for span in self.spans)


class World:
    """Logs, a recorder, a sealer and couriers, with a clock that the test turns."""

    def __init__(
        self, root: Path, *destinations: DestinationSettings, quiet: float = 30.0, home: Path | None = None
    ) -> None:
        self.logs = root / "logs"
        self.logs.mkdir()
        self.settings = Settings(
            home=home or root / "home",
            export=ExportSettings(quiet_seconds=quiet),
            destinations=destinations or (target(),),
        )
        ensure_home(self.settings)
        self._counts: Counter[str] = Counter()
        #: Seconds that the test has let pass.
        self.passed = 0.0

    @property
    def store(self) -> Path:
        return self.settings.home / "agenttrace.db"

    def clock(self) -> float:
        return time.time() + self.passed

    def reconfigured(self, *destinations: DestinationSettings) -> None:
        self.settings = msgspec.structs.replace(self.settings, destinations=destinations)

    # -- recording --------------------------------------------------------------------------------------------

    def append(self, session: str, kind: str, *, ts: float = NOW, **fields: Any) -> None:  # noqa: ANN401
        self._counts[session] += 1
        line = {"v": 1, "session": session, "type": kind, "id": f"{kind}-{self._counts[session]}", "ts": ts} | fields
        with (self.logs / f"{session}.jsonl").open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")

    def turn(self, session: str, number: int, *, steps: int = 1, end: bool = True, ts: float = NOW) -> None:
        """A turn with a model call and a tool for each step."""
        self.append(session, "turn.begin", turn=number, prompt=f"question {number}", ts=ts)
        for step in range(1, steps + 1):
            name = f"{number}.{step}"
            self.append(session, "step.begin", turn=number, step=step, id=name, model="qwen-max", ts=ts + step)
            self.append(session, "tool.begin", turn=number, step=step, id=f"call {name}", name="Bash", ts=ts + step)
            self.append(session, "tool.end", turn=number, id=f"call {name}", status="ok", result="done", ts=ts + step)
            usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 3}
            self.append(
                session,
                "step.end",
                turn=number,
                step=step,
                id=name,
                response=f"{session} {name}",
                usage=usage,
                ts=ts + step,
            )
        if end:
            self.append(session, "turn.end", turn=number, id=f"t{number}", status="ok", ts=ts + steps + 1)

    def use_samples(self) -> None:
        for sample in SAMPLES:
            shutil.copytree(DATA / sample, self.logs / sample)

    def record(self) -> None:
        with closing(Recorder(self.settings, paths=[str(self.logs)], environ={})) as recorder:
            recorder.run_once()

    # -- exporting --------------------------------------------------------------------------------------------

    @contextmanager
    def opened_store(self) -> Iterator[SqliteStore]:
        with SqliteStore.open(self.store, read_only=False) as store:
            yield store

    @contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        with self.opened_store() as store:
            yield store.connection

    def seal(self, **options: Any) -> int:  # noqa: ANN401
        with self.opened_store() as store:
            for each in targets(store, self.settings):
                Journal(self.settings.home, each.settings.name).fill(store.exports.ledger, each.row.destination_id)
            return Sealer(store, self.settings, clock=self.clock).run(**options)

    @contextmanager
    def courier(self, destination: Destination, name: str = "there") -> Iterator[Courier]:
        with self.opened_store() as store:
            (found,) = [each for each in targets(store, self.settings) if each.settings.name == name]
            cashier = Cashier(PriceTable.load(self.settings), self.settings.usage)
            mask = Mask(self.settings.export.mask).text
            assembly = Assembly(store, found.settings, texts=stored_texts(), mask=mask, cashier=cashier, agents=FACTS)
            with closing(Journal(self.settings.home, name)) as journal:
                number = found.row.destination_id
                yield Courier(store.exports, found.settings, number, destination, assembly, journal, clock=self.clock)

    def deliver(self, destination: Destination, name: str = "there", rounds: int = 200) -> None:
        """Deliver until nothing is left to do, turning the clock over every wait."""

        async def main() -> None:
            with self.courier(destination, name) as courier:
                for _ in range(rounds):
                    dealt = await courier.deliver()
                    if not dealt and not courier.waits and not self.left(name):
                        return
                    self.passed += courier.waits + 20.0

        asyncio.run(main())

    def left(self, name: str = "there") -> int:
        found = self.states(name)
        return found["queued"] + found["sending"]

    def states(self, name: str = "there") -> Mapping[State, int]:
        with self.opened_store() as store:
            (number,) = [row.destination_id for row in store.exports.destinations.rows() if row.name == name]
            return store.exports.ledger.counts().get(number) or dict.fromkeys(STATES, 0)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401
        with self.opened() as connection:
            return connection.execute(query, values).fetchall()

    def span_ids(self) -> set[bytes]:
        return {row[0] for row in self.rows("SELECT span_id FROM spans")}
