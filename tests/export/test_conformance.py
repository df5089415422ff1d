"""Real recordings in the words of the GenAI conventions: complete, in order, with the totals that ``usage`` shows."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from agenttrace.export.genai import described
from agenttrace.export.otlp_encoding import request_bytes
from agenttrace.export.span import ExportSpan
from agenttrace.record.recorder import Recorder
from agenttrace.store.sqlite.usage import usage_rows

from .rig import Shelf, World, target

SHARED = Path(__file__).resolve().parents[3] / "shared" / "samples"

REQUIRED = {
    "turn": ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.agent.name"),
    "step": ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"),
    "tool": ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id"),
}
NAMES = {"turn": "invoke_agent ", "step": "chat", "tool": "execute_tool "}
CONTENT = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
)


class Exported:
    """A recording that was exported: the spans that the destination got, as they are and as OTLP."""

    def __init__(self, world: World, **switches: str) -> None:
        self.world = world
        world.seal(quiet_seconds=0)
        shelf = Shelf()
        world.deliver(shelf)
        self.requests = shelf.requests
        self.spans = shelf.spans
        self.wire = [span for request in shelf.requests for span in decoded(request)]


def decoded(spans: list[ExportSpan]) -> list[Span]:
    request = ExportTraceServiceRequest.FromString(request_bytes(spans, described, {}))
    return [span for part in request.resource_spans for scope in part.scope_spans for span in scope.spans]


def attributes(span: Span) -> dict[str, object]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value") or "") for each in span.attributes}


@pytest.fixture(scope="module", params=["samples", "real agents' logs"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    world = World(tmp_path_factory.mktemp("world"), target())
    if request.param == "samples":
        world.use_samples()
        world.record()
        return Exported(world)
    if not SHARED.exists():
        pytest.skip("the masked logs of real agents are not here")
    with closing(Recorder(world.settings, paths=[str(SHARED)], environ={})) as recorder:
        recorder.run_once()
    return Exported(world)


def test_everything_that_was_recorded_arrives_once(exported: Exported) -> None:
    """Each span of the store, and nothing else."""
    stored = Counter(row[0] for row in exported.world.rows("SELECT span_id FROM spans"))
    assert Counter(span.span_id for span in exported.spans) == stored == Counter(span.span_id for span in exported.wire)


def test_parents_come_before_or_with_their_children(exported: Exported) -> None:
    """At any moment, a destination knows the parent of each span that it has; every trace has one root, a turn."""
    known: set[tuple[bytes, bytes]] = set()
    for request in exported.requests:
        wire = decoded(request)
        known |= {(span.trace_id, span.span_id) for span in wire}
        for span in wire:
            assert not span.parent_span_id or (span.trace_id, span.parent_span_id) in known
    roots = Counter(span.trace_id for span in exported.spans if span.is_root)
    assert set(roots.values()) == {1}
    assert roots.keys() == {span.trace_id for span in exported.spans}
    assert {span.kind for span in exported.spans if span.is_root} == {"turn"}
    assert all(span.path[-1].span_id == span.span_id for span in exported.spans)
    assert all(span.is_root == (len(span.path) == 1) for span in exported.spans)


def test_required_attributes_are_there(exported: Exported) -> None:
    """Each kind has the required attributes of the conventions, every span has the session, and errors have a type."""
    kinds = {span.span_id: span.kind for span in exported.spans}
    seen = Counter(kinds.values())
    assert {"turn", "step", "tool"} <= seen.keys()
    for span in exported.wire:
        told, kind = attributes(span), kinds[span.span_id]
        missing = [name for name in REQUIRED[kind] if not told.get(name)]
        if kind == "step" and span.name == "chat":
            missing = [name for name in missing if name != "gen_ai.request.model"]  # the log never names it
        assert not missing, (span.name, missing)
        assert span.name.startswith(NAMES[kind])
        assert told["gen_ai.conversation.id"] == told["session.id"] != ""
        assert span.start_time_unix_nano <= span.end_time_unix_nano
        assert (span.status.code == span.status.STATUS_CODE_ERROR) == ("error.type" in told)
        assert span.kind == (Span.SPAN_KIND_CLIENT if kind == "step" else Span.SPAN_KIND_INTERNAL)


def test_totals_are_those_of_usage(exported: Exported) -> None:
    """Tokens stand on model calls alone, and summed over everything they are what ``agenttrace usage`` shows."""
    with exported.world.opened() as connection:
        rows = usage_rows(connection)
    expected = Counter(
        {
            "gen_ai.usage.output_tokens": sum(row.usage.output_tokens for row in rows),
            "gen_ai.usage.input_tokens": sum(row.usage.total - row.usage.output_tokens for row in rows),
            "gen_ai.usage.cache_read.input_tokens": sum(row.usage.cache_read_tokens for row in rows),
            "gen_ai.usage.cache_creation.input_tokens": sum(row.usage.cache_write_tokens for row in rows),
            "gen_ai.usage.cache_write.input_tokens": sum(row.usage.cache_write_tokens for row in rows),
            "gen_ai.usage.reasoning.output_tokens": sum(row.usage.reasoning_tokens for row in rows),
        }
    )
    sums: Counter[str] = Counter()
    for span in exported.wire:
        told = {name: value for name, value in attributes(span).items() if name.startswith("gen_ai.usage.")}
        assert not told or span.name.startswith("chat")
        sums.update({name: int(str(value)) for name, value in told.items() if name.endswith("tokens")})
    assert sums == expected
    assert sums["gen_ai.usage.input_tokens"] > 0


def test_a_turn_has_its_prompt_and_answer(exported: Exported) -> None:
    """Backends show input and output of a trace: the prompt, and the last words of the last model call."""
    turns = [span for span in exported.spans if span.is_root]
    kinds = Counter(tuple(dict.fromkeys(text.kind for text in span.texts)) for span in turns)
    assert kinds["prompt", "text"] > len(turns) / 2
    for turn in turns:
        steps = [span for span in exported.spans if span.kind == "step" and span.parent_id == turn.span_id]
        last = max(steps, key=lambda span: (span.start, span.step_n), default=turn)
        words = [text.text for text in last.texts if text.kind == "text"]
        assert not words or turn.texts[-1].text == words[-1]


def test_switches_exclude_all_texts(tmp_path: Path) -> None:
    """With all content off, no text is sent: not as a message, not as a title, not as an error."""
    off = target("off", prompts="off", tool_inputs="off", tool_outputs="off")
    world = World(tmp_path, off, target("full", prompts="full", tool_inputs="full", tool_outputs="full"))
    world.use_samples()
    world.append("mine", "session.begin", title="SECRET title")
    world.append("mine", "turn.begin", turn=1, prompt="SECRET question")
    world.append("mine", "step.begin", turn=1, step=1, id="s1", model="qwen-max")
    world.append("mine", "message", turn=1, step=1, role="assistant", text="SECRET answer")
    world.append("mine", "tool.begin", turn=1, step=1, id="c1", name="Bash", arguments={"command": "SECRET"})
    world.append("mine", "tool.end", turn=1, id="c1", status="error", result="SECRET", error="SECRET failure")
    world.append("mine", "turn.end", turn=1, status="error", error="SECRET failure")
    world.record()
    world.seal(quiet_seconds=0)
    nothing, everything = Shelf(), Shelf()
    world.deliver(nothing, "off")
    world.deliver(everything, "full")
    assert len(nothing.spans) == len(everything.spans)
    assert b"SECRET" not in b"".join(request_bytes(sent, described, {}) for sent in nothing.requests)
    assert request_bytes(everything.spans, described, {}).count(b"SECRET") >= 6
    said = {name for sent in nothing.requests for span in decoded(sent) for name in attributes(span)}
    assert said.isdisjoint(CONTENT)
    assert said >= {"gen_ai.usage.input_tokens", "gen_ai.tool.name"}


@pytest.mark.parametrize(
    ("switch", "kept"),
    [("prompts", {"arguments", "result"}), ("tool_inputs", {"prompt", "text", "result"}), ("tool_outputs", {"prompt"})],
)
def test_each_switch_excludes_its_texts(tmp_path: Path, switch: str, kept: set[str]) -> None:
    """Prompts, tool inputs and tool outputs can be excluded one by one; included texts are masked."""
    world = World(tmp_path, target(**{switch: "off"}))
    world.use_samples()
    world.record()
    world.seal(quiet_seconds=0)
    shelf = Shelf()
    world.deliver(shelf)
    kinds = {text.kind for span in shelf.spans for text in span.texts}
    gone = {"prompts": {"prompt", "text", "thinking"}, "tool_inputs": {"arguments"}, "tool_outputs": {"result"}}[switch]
    assert kinds >= kept
    assert kinds.isdisjoint(gone)
