"""Lines become rows: decode, drop what is known, fold the rest, and commit everything of a batch together.

One batch is one transaction: events, spans, sessions, usage, raw lines, stream states and file offsets. Whatever
happens before the commit never happened; after it, nothing of the batch is read again. The memory has only
a cache of the store, and the batch; ``roll_back`` drops both.
"""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from typing import Any

import msgspec
import zstandard

from agenttrace.ids import line_key, session_number, trace_event_id
from agenttrace.model import Event, Session
from agenttrace.projects import is_demo
from agenttrace.record.files.reader import BOM, Chunk
from agenttrace.record.files.tracked import TrackedFile
from agenttrace.record.formats.contract import Agent, Source, Unusable
from agenttrace.record.ingest import acts
from agenttrace.record.ingest.bad_lines import BadLineError, blame, is_a_lines_fault
from agenttrace.record.ingest.dedup import SessionIds, Tiers
from agenttrace.record.ingest.fold import Folder, StreamState
from agenttrace.record.ingest.quarantine_rows import (
    LIMITS,
    QuarantineLimits,
    QuarantineRows,
    digest_of,
)
from agenttrace.record.ingest.trace_sessions import TraceSessions, is_joined
from agenttrace.store.batch import BLOCK_BITS as BLOCK_BITS
from agenttrace.store.batch import COMPRESSION_LEVEL, Batch, Claim, span_row
from agenttrace.store.questions import MAIN_STREAM, TELEMETRY, ProviderWindow
from agenttrace.store.sqlite.store import SqliteStore
from agenttrace.store.totals import told_row

#: Sessions whose folding state stays in memory between batches.
SESSIONS_IN_MEMORY = 500
#: A session without a new line for this long is dropped from memory.
IDLE_SECONDS = 3_600.0
#: Of a title, this much is stored; lists show less and mark where they cut.
TITLE_CHARACTERS = 500

_encode_state = msgspec.msgpack.Encoder().encode
_state_decoder = msgspec.msgpack.Decoder(StreamState)


class LiveSession:
    """A session that is being recorded: its row, its known ids, and the folding state of its streams."""

    def __init__(self, session: Session, ids: SessionIds, *, new: bool) -> None:
        self.session = session
        self.ids = ids
        self.new = new
        self.prefix = f"{session.session_id}:turn:0:step:0:type:".encode("utf-8", "surrogatepass")
        self.folders: dict[str, Folder] = {}
        self.touched = False
        self.used_at = 0.0
        #: True for a trace that is part of another session: its row says of which, and nothing else.
        self.joined = False
        #: The ids of sessions that became part of this one in the batch; the store has them where they were.
        self.parts: list[SessionIds] = []
        #: Whether the agent's own log of it is recorded: then telemetry of it adds nothing.
        self.logged = False


class Pipeline:
    """Collects a batch and commits it. Only one may work on a session at a time."""

    def __init__(
        self,
        store: SqliteStore,
        agents: Mapping[str, Agent],
        *,
        day_of: Callable[[int], str],
        compressor: Executor | None = None,
        recent_size: int = 10_000,
        alone: bool = True,
        limits: QuarantineLimits = LIMITS,
    ) -> None:
        self.store = store
        self.agents = agents
        self.tiers = Tiers(store, recent_size)
        self._day_of = day_of
        #: For one thread at a time; setting up a compressor costs more than compressing a block.
        self._zstd = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL, write_checksum=True)
        self._compressor = compressor
        self._alone = alone
        self._store_version = -1
        self._sessions: dict[tuple[str, str], LiveSession] = {}
        self.trace_sessions = TraceSessions(self)
        #: Agent and id of every session with a line in a batch.
        self.sessions: set[tuple[str, str]] = set()
        self._files: dict[int, TrackedFile] = {}
        self.quarantine = QuarantineRows(store.quarantine, limits)
        #: Lines that cannot be recorded: digest and reason by file and offset.
        self._bad: dict[int, dict[int, tuple[bytes, str]]] = {}
        #: The line that the batch begins with.
        self.first: tuple[TrackedFile, int, bytes] | None = None
        self._batch = Batch()
        self._blocks: list[tuple[tuple[Any, ...], Future[bytes] | bytes]] = []
        self._counted: dict[str, int] = {}
        self.lines = 0
        #: Of what is stored, and of what was read.
        self.bytes = self.read_bytes = 0
        self._began = 0.0

    # -- collecting -------------------------------------------------------------------------------------------

    def take(self, file: TrackedFile, chunk: Chunk) -> None:
        """Add a chunk of a recognised file to the batch."""
        source = file.source
        assert source is not None
        if not self._began:
            self._began = time.monotonic()
            self._notice_others()
        self._files[file.row.file_id] = file
        self._take_link(source)
        size = file.bytes_in(chunk)
        if self.first is None and chunk.lines:
            self.first = (file, chunk.offsets[0], chunk.lines[0])
        _Intake(self, file, source, chunk).run()
        file.position = chunk.end
        self.lines += len(chunk.lines) + (chunk.oversized is not None)
        self.read_bytes += size

    def _notice_others(self) -> None:
        """Another process changed the store (a session was pruned): the caches may be stale.

        Workers of one import change it all the time, but never each other's sessions.
        """
        version = self.store.foreign_version()
        if self._alone and version != self._store_version:
            self._sessions.clear()
            self.tiers.forget()
        self._store_version = version

    def age(self) -> float:
        """Seconds since the batch was begun."""
        return time.monotonic() - self._began if self._began else 0.0

    def _take_link(self, source: Source) -> None:
        """Remember which tool call a subagent's file carries out, where files beside it say so."""
        if source.parent_call is not None and source.stream != "main":
            number = session_number(source.agent, source.session_id)
            parent = source.parent_stream or "main"
            self._batch.links.append((number, source.stream, parent, source.parent_call))

    def touch_file(self, file: TrackedFile) -> None:
        """Write a file's row with the batch although the batch has no line of it."""
        self._files[file.row.file_id] = file

    def touch_error(self, file: TrackedFile, reason: str | None) -> None:
        """Store at once why a file cannot be read, or that it can: there may be no batch for a long time."""
        self.store.files.save(msgspec.structs.replace(file.row, error=reason, last_read_at=time.time()))

    @property
    def files(self) -> list[TrackedFile]:
        """The files of the batch."""
        return list(self._files.values())

    def refuse(self, file: TrackedFile, offset: int, raw: bytes, reason: str) -> bool:
        """Set a line aside when it is read again, because it cannot be recorded; False if that was requested before."""
        bad = self._bad.setdefault(file.row.file_id, {})
        known = bad.get(offset)
        bad[offset] = (digest_of(raw), reason)
        return known is None or known[0] != bad[offset][0]

    def resolve(self, file: TrackedFile, reason: str) -> None:
        """Mark the quarantined lines of a file with this reason as resolved, with the batch."""
        self._batch.resolved.append((time.time(), file.row.file_id, reason))

    def live_session(self, agent: str, session_id: str) -> LiveSession:
        """The session, from memory, from the store, or new."""
        self.sessions.add((agent, session_id))
        return self.looked_up(agent, session_id)

    def looked_up(self, agent: str, session_id: str) -> LiveSession:
        """The same without counting the session as recorded."""
        live = self._sessions.get((agent, session_id))
        if live is None:
            number = session_number(agent, session_id)
            session = self.store.stored_session(number)
            new = session is None
            session = session or Session(id=number, agent=agent, session_id=session_id)
            # Pruned sessions have ids and no row.
            known = not new or self.store.has_events(number)
            live = LiveSession(session, self.tiers.session(number, new=not known), new=new)
            live.joined = is_joined(session)
            self._sessions[(agent, session_id)] = live
        elif not live.touched:
            # Young end of both caches; L0 may have been thrown away since the last batch.
            self._sessions[(agent, session_id)] = self._sessions.pop((agent, session_id))
            live.ids = self.tiers.session(live.session.id, new=False)
        live.touched = True
        return live

    def folder(self, live: LiveSession, stream: str, source: Source) -> Folder:
        """The folding state of a stream."""
        folder = live.folders.get(stream)
        if folder is None:
            data = None if live.new else self.store.stored_stream(live.session.id, stream)
            state = StreamState() if data is None else _state_decoder.decode(data)
            if state.model is None:
                state.model = source.model
            name = source.name or source.agent
            self._notice_log(live, stream)
            folder = live.folders[stream] = Folder(live.session.session_id, stream, name, state)
        return folder

    def _notice_log(self, live: LiveSession, stream: str) -> None:
        """The agent's own log of a session takes the place of its telemetry, whichever is read first."""
        if live.logged:
            return
        number = live.session.id
        stored = not live.new
        logs = any(known != TELEMETRY for known in live.folders)
        if stream == TELEMETRY:
            live.logged = logs or (stored and self.store.has_log(number))
            return
        live.logged = True
        if TELEMETRY not in live.folders and not (stored and self.store.has_telemetry(number)):
            return
        if not (logs or (stored and self.store.has_log(number))):
            withdraw_telemetry(live.session)
            self._batch.logged.append(number)

    def summarise(self, live: LiveSession) -> None:
        """Bring the row of a session up to date with what the batch has of it so far."""
        for stream, folder in live.folders.items():
            if stream != TELEMETRY or not live.logged:
                summarise(live.session, folder)
            folder.summarised()

    def absorb(self, part: int, whole: int, turn: int) -> None:
        """Move a session in the store into another, with the batch."""
        self._batch.absorbed.append((part, whole, turn))

    # -- committing -------------------------------------------------------------------------------------------

    @property
    def empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not any(file.dirty for file in self._files.values())

    def commit(self) -> None:
        """Write the batch in one transaction. On any error everything is as if it had not been read."""
        try:
            self._write()
        except BaseException:
            self.roll_back()
            raise
        self._forget_batch()
        self._trim()

    def _write(self) -> None:
        batch = self._batch
        for live in self._sessions.values():
            if live.touched:
                self._collect(live, batch)
        for place, data in self._blocks:
            batch.blocks.append((*place, data if isinstance(data, bytes) else data.result()))
        batch.quarantine = self.quarantine.rows
        batch.counters = self._counter_changes()
        batch.files = [file.next_row() for file in self._files.values()]
        self.store.commit(batch, day_of=self._day_of)
        for row in batch.files:
            self._files[row.file_id].committed(row)

    def _collect(self, live: LiveSession, batch: Batch) -> None:
        session = live.session
        number = session.id
        for stream, folder in live.folders.items():
            if stream == TELEMETRY and live.logged:
                if folder.fed:
                    batch.streams.append((number, stream, _encode_state(folder.state)))
                continue
            batch.claims += [
                Claim(key, number, fact.at, fact.model, fact.estimated, fact.copies, fact.usage, fact.terms, fact.order)
                for facts in (folder.usage, folder.repeated)
                for key, fact in facts.items()
            ]
            if not folder.fed:
                continue
            shown = stream
            if stream == TELEMETRY:
                shown = MAIN_STREAM
                batch.told.add(number)
            batch.spans += [span_row(span, number, shown) for span in folder.changed.values()]
            batch.totals += [
                told_row(number, told, model, usage)
                for told in folder.told.values()
                for model, usage in told.by_model.items()
            ]
            if folder.waits and shown == MAIN_STREAM and (stream != TELEMETRY or not live.logged):
                batch.waits += [(number, *wait) for wait in folder.waits]
            summarise(session, folder)
            if not is_demo(session.project):
                batch.limits += [_window(session.agent, at, act) for at, act in folder.limits.values()]
            batch.streams.append((number, stream, _encode_state(folder.state)))
        if session.events or live.joined:
            batch.sessions.append(session)

    def _counter_changes(self) -> dict[str, int]:
        changes = {name: total - self._counted.get(name, 0) for name, total in self._tier_totals().items()}
        return {name: change for name, change in changes.items() if change}

    def _tier_totals(self) -> dict[str, int]:
        totals = {f"dedup_{tier}_hits": hits for tier, hits in self.tiers.hits.items()}
        return totals | {"dedup_misses": self.tiers.misses}

    def _forget_batch(self) -> None:
        for file_id in self._files:
            self._bad.pop(file_id, None)
        self._counted = self._tier_totals()
        self.tiers.remember_later([row[0] for row in self._batch.events[-self.tiers.recent_size :]])
        for live in self._sessions.values():
            if live.touched:
                live.touched = live.new = False
                live.used_at = time.monotonic()
                live.parts = []
                for folder in live.folders.values():
                    folder.taken()
        self._end_batch()

    def _end_batch(self) -> None:
        self._batch = Batch()
        self._blocks = []
        self._files = {}
        self.quarantine.forget()
        self.first = None
        self.lines = self.bytes = self.read_bytes = 0
        self._began = 0.0

    def _trim(self) -> None:
        """Drop sessions from memory that ended or were idle for long, and the oldest if there are too many.

        Should such a session go on, its state and its ids are read from the store.
        """
        self.tiers.trim_sessions()
        idle = time.monotonic() - IDLE_SECONDS
        excess = len(self._sessions) - SESSIONS_IN_MEMORY
        for place, (key, live) in enumerate(list(self._sessions.items())):
            over = live.session.state == "ended" or live.used_at < idle
            if over:
                self.tiers.end_session(live.session.id)
            if over or place < excess:
                del self._sessions[key]

    def roll_back(self) -> None:
        """Drop the batch and every cache; only the store is right."""
        for file in self._files.values():
            file.roll_back()
        self.tiers.forget()
        self.tiers.count_from(self._counted)
        self._sessions.clear()
        self._end_batch()

    # -- used by an intake ------------------------------------------------------------------------------------

    def _add_block(self, file: TrackedFile, block_id: int, lines: list[bytes], offsets: list[int]) -> None:
        data = b"\n".join(lines)
        row = (
            block_id,
            file.row.file_id,
            file.generation,
            len(lines),
            len(data),
            time.time(),
            array("Q", offsets).tobytes(),
        )
        self.bytes += len(data)
        compress = self._zstd.compress
        packed = self._compressor.submit(compress, data) if self._compressor else compress(data)
        self._blocks.append((row, packed))


def _window(agent: str, at: int, act: acts.LimitWindow) -> ProviderWindow:
    return ProviderWindow(
        agent=agent,
        name=act.name,
        resets_at=act.resets_at,
        window_minutes=act.minutes,
        used_percent=act.used_percent,
        at=at,
        plan=act.plan,
    )


def summarise(session: Session, folder: Folder) -> None:
    """Add a stream's batch to its session's row."""
    leads = folder.stream in (MAIN_STREAM, TELEMETRY)
    session.steps += folder.new_steps
    session.tools += folder.new_tools
    session.errors += folder.new_errors
    if folder.earliest is not None and (session.started_at is None or folder.earliest < session.started_at):
        session.started_at = folder.earliest
    for info in folder.info:
        session.parent = info.parent or session.parent
        session.copied = session.copied or bool(info.copied)
        if leads or session.project is None:
            session.project = info.cwd or session.project
            session.branch = info.branch or session.branch
            session.version = info.version or session.version
        if leads:
            session.title = (info.title or "")[:TITLE_CHARACTERS] or session.title
            session.model = info.model or session.model
    if leads:
        # Prompts for the agent; those for its subagents are tool calls.
        session.turns += folder.new_turns
        session.first_prompt = session.first_prompt or folder.first_prompt
        session.state = folder.state.state


def withdraw_telemetry(session: Session) -> None:
    """Take out of a session's row what telemetry said; times and events stay those of both."""
    session.project = session.branch = session.title = session.first_prompt = session.version = session.model = None
    session.turns = session.steps = session.tools = session.errors = 0
    session.state = "working"


#: A decoded line: raw bytes, offset, event, id, and whether it is the whole line (not a piece cut out of one).
_Entry = tuple[bytes, int, Event, bytes, bool]


class _Intake:
    """One chunk on its way into the batch."""

    def __init__(self, pipeline: Pipeline, file: TrackedFile, source: Source, chunk: Chunk) -> None:
        self.pipeline = pipeline
        self.file = file
        self.source = source
        self.chunk = chunk
        self.agent = pipeline.agents[source.agent]
        self.repeats_usage = self.agent.traits.repeats_usage
        self.live = pipeline.live_session(source.agent, source.session_id)
        self.kept: list[bytes] = []
        self.kept_offsets: list[int] = []
        self.block_id = (file.row.file_id << BLOCK_BITS) | file.blocks
        self.rows = pipeline._batch.events
        self.now = time.time()
        #: The session that was asked for last, and its name.
        self._latest: tuple[str | None, LiveSession] = (None, self.live)

    def run(self) -> None:
        """Decode all lines, look up once which are known, fold the new ones."""
        chunk, counts = self.chunk, self.file.counts
        counts["lines"] += len(chunk.lines)
        if chunk.refused is not None:
            self._refused(chunk.refused, *(chunk.oversized or (chunk.end, 0, digest_of(b""))))
        elif chunk.oversized is not None:
            self._oversized(*chunk.oversized)
        events = self._decode()
        known = self._known(events)
        self._beginning(events)
        try:
            for entry in events:
                fresh = self._record(entry, known)
                if entry[4]:
                    counts["recorded" if fresh else "duplicate"] += 1
        except Exception as error:
            if not is_a_lines_fault(error):
                raise
            place = chunk.offsets.index(entry[1])
            before = self.pipeline.lines + place
            raise BadLineError(self.file, entry[1], chunk.lines[place], error, before) from error
        self._facts()
        if self.kept:
            self.pipeline._add_block(self.file, self.block_id, self.kept, self.kept_offsets)
            self.file.blocks += 1

    def _decode(self) -> list[_Entry]:
        """``(raw, offset, event, id, whole line)`` of each event; what is none is counted or set aside."""
        events: list[_Entry] = []
        decode, source, prefix = self.agent.decode, self.source, self.live.prefix
        sha256 = hashlib.sha256
        bad = self.pipeline._bad.get(self.file.row.file_id)
        for raw, offset in zip(self.chunk.lines, self.chunk.offsets, strict=True):
            if self.chunk.broken is not None:
                self._set_aside(raw, offset, Unusable(self.chunk.broken, harmless=False), events)
                continue
            if bad is not None and offset in bad and bad[offset][0] == digest_of(raw):
                self._set_aside(raw, offset, Unusable(bad[offset][1], harmless=False), events)
                continue
            if offset == 0:
                raw = raw.removeprefix(BOM)
            if not raw.isascii() and (reason := utf8_error(raw)) is not None:
                self._set_aside(raw, offset, Unusable(reason, harmless=False), events)
                continue
            try:
                event = decode(raw, source)
                if type(event) is Event:
                    if event.key is not None and event.session is None and event.trace is None:
                        text = f"{event.type}:key:{event.key}".encode("utf-8", "surrogatepass")
                        events.append((raw, offset, event, sha256(prefix + text).digest()[:16], True))
                    else:
                        events.append((raw, offset, event, self._identify(raw, event, 0), True))
                    continue
            except Exception as error:
                event = _refusal(error)
            assert isinstance(event, Unusable)
            self._set_aside(raw, offset, event, events)
        return events

    def _identify(self, raw: bytes, event: Event, ordinal: int) -> bytes:
        key = event.key if event.key is not None else line_key(raw, ordinal)
        if event.trace is not None:
            return trace_event_id(event.trace, event.type, key)
        text = f"{event.type}:key:{key}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(self._session_of(event).prefix + text).digest()[:16]

    def _session_of(self, event: Event) -> LiveSession:
        """Where the event is recorded, if it is."""
        if event.trace is not None:
            return self.pipeline.trace_sessions.of(self.source.agent, event.trace)
        if event.session is None:
            return self.live
        if event.agent is not None:
            return self.pipeline.live_session(event.agent, event.session)
        # Lines of one session mostly stand together, and each is asked for three times.
        if event.session != self._latest[0]:
            self._latest = (event.session, self.pipeline.live_session(self.source.agent, event.session))
        return self._latest[1]

    def _set_aside(self, raw: bytes, offset: int, what: Unusable, events: list[_Entry]) -> None:
        counts = self.file.counts
        if what.harmless or not raw.strip():
            counts["ignored"] += 1
            return
        fresh = self.pipeline.quarantine.add(self.file, offset, raw, what.reason, len(what.salvaged))
        counts["quarantined" if fresh else "duplicate"] += 1
        for piece in what.salvaged:
            try:
                event = self.agent.decode(piece, self.source)
                if isinstance(event, Event):
                    events.append((piece, offset, event, self._identify(piece, event, 0), False))
            except Exception as error:
                _refusal(error)  # the whole line is set aside

    def _oversized(self, offset: int, length: int, digest: bytes) -> None:
        self.file.counts["lines"] += 1
        self._set_aside_unread(offset, length, digest, f"line too long ({length:,} bytes)")

    def _refused(self, reason: str, offset: int, length: int, digest: bytes) -> None:
        """The file, or its rest, is not read: that is one entry, however often the file changes meanwhile."""
        self.file.counts["lines"] += 1
        if self.pipeline.quarantine.is_waiting(self.file, reason):
            self.file.counts["duplicate"] += 1
        else:
            self._set_aside_unread(offset, length, digest, reason)

    def _set_aside_unread(self, offset: int, length: int, digest: bytes, reason: str) -> None:
        fresh = self.pipeline.quarantine.add_unread(self.file, offset, length, digest, reason)
        self.file.counts["quarantined" if fresh else "duplicate"] += 1

    def _known(self, events: list[_Entry]) -> set[bytes]:
        """The ids recorded before this chunk. Repeats inside the chunk show when they are recorded."""
        if not any(entry[2].session or entry[2].trace for entry in events):
            return self.pipeline.tiers.known(self.live.ids, [entry[3] for entry in events])
        by_session: dict[int, list[bytes]] = {}
        lives: dict[int, LiveSession] = {}
        for entry in events:
            live = self._session_of(entry[2])
            lives[live.session.id] = live
            by_session.setdefault(live.session.id, []).append(entry[3])
        known: set[bytes] = set()
        for number, event_ids in by_session.items():
            for ids in (lives[number].ids, *lives[number].parts):
                known |= self.pipeline.tiers.known(ids, event_ids)
        return known

    def _record(self, entry: _Entry, known: set[bytes]) -> bool:
        """Fold one event and store its line; False if it was known."""
        raw, offset, event, event_id, _ = entry
        live = self.live if event.session is None and event.trace is None else self._session_of(event)
        ids = live.ids.ids
        if event.key is None:
            fresh_id = self._ordinal_id(entry, known, live)
            if fresh_id is None:
                return False
            event_id = fresh_id
        elif event_id in known:
            self._repeat(event, live)
            return False
        elif event_id in ids:
            self.pipeline.tiers.repeated()
            self._repeat(event, live)
            return False
        if event.trace is not None:
            live = self.pipeline.trace_sessions.named(self.source, event.trace, event.session)
            ids = live.ids.ids
        ids.add(event_id)
        source, session, at = self.source, live.session, event.at
        stream = event.stream or source.stream
        folder = live.folders.get(stream) or self.pipeline.folder(live, stream, source)
        # Those of the line's file: another file of the stream may not be in memory any more.
        folder.agent, folder.order = source.name or event.agent or source.agent, len(self.rows)
        span = folder.feed(event_id, at, self.agent.acts(event, source, folder.state.memory))
        if folder.spawned:
            self._link(folder.spawned, live)
        kept = self.kept
        row = (event_id, session.id)
        if span is None or (stream == TELEMETRY and live.logged):
            self.rows.append((*row, -1, 0, event.type, None, self.now, self.block_id, len(kept)))
        else:
            where = (span.turn_index, span.step_n, event.type, span.span_id)
            self.rows.append((*row, *where, self.now, self.block_id, len(kept)))
        session.events += 1
        kept.append(raw)
        self.kept_offsets.append(offset)
        if at is not None:
            self._times(session, at, stream)
        return True

    def _repeat(self, event: Event, live: LiveSession) -> None:
        """A copy of a recorded line has nothing new, except perhaps the final usage of its response."""
        if self.repeats_usage:
            stream = event.stream or self.source.stream
            folder = live.folders.get(stream) or self.pipeline.folder(live, stream, self.source)
            usage = self.agent.repeated_usage(event, self.source, folder.state.memory)
            # What is remembered must be stored; a stream of which nothing is new has nothing to remember as a rule.
            folder.fed = folder.fed or bool(folder.state.memory)
            if usage is not None:
                folder.order = len(self.rows)
                folder.repeat_usage(event.at, usage)

    def _beginning(self, events: list[_Entry]) -> None:
        """When the session's main log began; of several, the first, in whatever order they are read.

        That is the first line with a time, wherever the first batch of the file ends.
        """
        file, session = self.file, self.live.session
        if self.chunk.offsets[:1] == [0]:
            file.begun = False
        if self.source.stream != "main" or file.begun:
            return
        first = next((at for entry in events if (at := _begins(entry[2])) is not None), None)
        if first is None:
            return
        if not self._begun_before() and (session.born is None or first < session.born):
            session.born = first
        file.begun = True

    def _begun_before(self) -> bool:
        """Whether a line before the chunk has the time at which the log began."""
        if self.file.begun is not None:
            return self.file.begun
        return any(map(self._tells_beginning, self.file.lines_before(self.chunk.offsets[0])))

    def _tells_beginning(self, raw: bytes) -> bool:
        if not raw.isascii() and utf8_error(raw) is not None:
            return False
        try:
            event = self.agent.decode(raw, self.source)
        except Exception as error:
            _refusal(error)
            return False
        if isinstance(event, Event):
            return _begins(event) is not None
        return not event.harmless and any(map(self._tells_beginning, event.salvaged))

    def _ordinal_id(self, entry: _Entry, known: set[bytes], live: LiveSession) -> bytes | None:
        """The id of a line without a key; ``None`` if this occurrence of it is recorded."""
        raw, offset, event, event_id, whole = entry
        ids = live.ids.ids
        seen_before = event_id in known or event_id in ids
        if not seen_before and self.file.seen_lines is None:
            return event_id
        ordinal = self.file.times_seen(raw, offset, whole=whole)
        if ordinal > 0:
            event_id = self._identify(raw, event, ordinal)
            seen_before = event_id in ids or bool(self.pipeline.tiers.known(live.ids, (event_id,)))
        return None if seen_before else event_id

    def _link(self, spawned: list[acts.Spawned], live: LiveSession) -> None:
        for act in spawned:
            self.pipeline._batch.links.append((live.session.id, act.stream, self.source.stream, act.call))
        spawned.clear()

    @staticmethod
    def _times(session: Session, at: int, stream: str) -> None:
        if session.started_at is None or at < session.started_at:
            session.started_at = at
        if session.last_at is None or at > session.last_at:
            session.last_at = at
        if session.born is None and stream == "main":
            session.born = at

    def _facts(self) -> None:
        """Facts about the session from the files beside the log; those in the log's own lines take precedence."""
        session, source = self.live.session, self.source
        session.project = session.project or source.cwd
        session.parent = session.parent or source.parent_session
        session.copied = session.copied or source.copied
        if source.stream == "main":
            session.title = source.title or session.title
            session.model = session.model or source.model


def _begins(event: Event) -> int | None:
    """The time of an event that may be the first of its main log."""
    own = event.session is None and event.trace is None and event.stream in (None, "main")
    return event.at if own else None


def _refusal(error: Exception) -> Unusable:
    """Refuse a line whose decoding failed; raises what is no fault of the line."""
    if not is_a_lines_fault(error):
        raise error
    return Unusable(blame(error), harmless=False)


def utf8_error(raw: bytes) -> str | None:
    """Why a line is not UTF-8; ``None`` if it is."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"invalid UTF-8 at byte {error.start} of the line"
    return None
