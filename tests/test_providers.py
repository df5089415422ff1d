"""The provider of a model: one answer, wherever a span is shown or sent."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as official
from typer.testing import CliRunner

from agenttrace.cli.program import app
from agenttrace.export import conventions as c
from agenttrace.export import genai
from agenttrace.export.span import ExportSpan
from agenttrace.mcp import span as mcp_span
from agenttrace.mcp.tool_runner import ToolRunner
from agenttrace.providers import UNKNOWN, provider_of
from agenttrace.record.formats import FACTS
from agenttrace.views.spans import span_fields
from export.rig import Shelf, World
from serve.session_rig import Store

CASES = [
    ("claude-sonnet-4-5-20250929", "claude-code", "anthropic"),
    ("anthropic/claude-opus-4", "agenttrace", "anthropic"),
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-code", "aws.bedrock"),
    ("bedrock/us-gov.anthropic.claude-haiku-4-5-v1:0", "claude-code", "aws.bedrock"),
    ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-x", "claude-code", "aws.bedrock"),
    ("claude-sonnet-4-5@20250929", "claude-code", "gcp.vertex_ai"),
    ("gpt-5.1-codex", "codex", "openai"),
    ("o3-mini", "codex", "openai"),
    ("o4", "codex", "openai"),
    ("kimi-k2.5", "kimi-cli", "moonshot_ai"),
    ("kimi-for-coding", "claude-code", "moonshot_ai"),
    ("moonshot-v1-8k", "x", "moonshot_ai"),
    ("deepseek-v3.2", "claude-code", "deepseek"),
    ("gemini-3-pro", "codex", "gcp.gen_ai"),
    ("models/gemini-3-pro", "x", "gcp.gen_ai"),
    ("grok-4", "codex", "x_ai"),
    ("mistral-large", "x", "mistral_ai"),
    ("qwen3-max", "qwen-code", "dashscope"),
    ("GLM-4.6", "claude-code", "zhipu_ai"),
    ("otter", "codex", "openai"),
    (None, "claude-code", "anthropic"),
    (None, "kimi-code", "moonshot_ai"),
    (None, "agenttrace", "dashscope"),
    (None, "something-else", None),
    ("", "", None),
]


@pytest.mark.parametrize(("model", "agent", "provider"), CASES)
def test_the_model_decides_then_the_agent(model: str | None, agent: str, provider: str | None) -> None:
    """The model's name decides, with any agent; an unknown model is the provider's for which the agent was made."""
    assert provider_of(model, FACTS.get(agent)) == provider


def test_providers_are_spelled_as_the_conventions_do() -> None:
    """Names that look like the conventions' are theirs; ours are those that they do not have."""
    official_values = {each.value for each in official.GenAiProviderNameValues}
    models = ["claude", "gpt-5", "deepseek", "gemini", "mistral", "grok", "command-r", "sonar", "anthropic.claude"]
    found = {provider_of(model) for model in models}
    assert found <= official_values
    assert len(found) == len(models)
    # Added to the conventions after they moved to a repository of their own.
    assert provider_of("kimi-k2") == "moonshot_ai"


# -- four places, one answer ------------------------------------------------------------------------------------


def recorded(world: World, session: str, agent: str, model: str | None) -> None:
    """A session of an agent with one model call, answered by a model."""
    world.turn(session, 1)
    world.record()
    assign(world, session, agent, model)


def assign(world: World, session: str, agent: str, model: str | None) -> None:
    with world.opened() as connection:
        (number,) = connection.execute("SELECT id FROM sessions WHERE session_id = ?", (session,)).fetchone()
        connection.execute("UPDATE sessions SET agent = ?, model = ? WHERE id = ?", (agent, model, number))
        connection.execute("UPDATE spans SET model = ? WHERE session_id = ? AND kind = 'step'", (model, number))
        values = (model or UNKNOWN, number)
        connection.execute("UPDATE responses SET model = ? WHERE session_id = ?", values)


def exported(span: ExportSpan) -> str | None:
    found = str(genai.facts(span)[c.PROVIDER_NAME])
    return None if found == UNKNOWN else found


def told_to_agents(past: ToolRunner, session: str, span: str) -> str | None:
    asked = mcp_span.SpanArguments(session=session, span=span)
    head, *_ = past.asked(lambda look: mcp_span.read(look, asked), threading.Event())
    found = re.search(r"^- Provider: (.*)$", head, re.MULTILINE)
    return None if found is None else found[1]


def test_show_api_mcp_and_export_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each span of each case: the command, the API, the tool for agents and a destination give one provider."""
    world = World(tmp_path, quiet=0.0)
    monkeypatch.setenv("AGENTTRACE_HOME", str(world.settings.home))
    wanted = {f"s{number}": case for number, case in enumerate(CASES) if case[1]}
    for name in wanted:
        world.turn(name, 1)
    world.record()
    for name, (model, agent, _) in wanted.items():
        assign(world, name, agent, model)
    world.seal()
    shelf = Shelf()
    world.deliver(shelf)
    sent = {span.span_id.hex(): exported(span) for span in shelf.spans}

    with Store.of(world.settings).served() as http:
        listed = [http.get(f"/sessions/{name}/spans").json()["items"] for name in wanted]
    served = {item["span_id"]: item["attributes"].get("gen_ai.provider.name") for items in listed for item in items}
    past = ToolRunner()
    for name, (_, _, provider) in wanted.items():
        shown = CliRunner().invoke(app, ["show", name, "--json"])
        spans = json.loads(shown.stdout)["spans"]
        assert {span["kind"] for span in spans} == {"turn", "step", "tool"}
        for span in spans:
            number = span["span_id"]
            found = [span["attributes"].get("gen_ai.provider.name"), served[number], sent[number]]
            assert [*found, told_to_agents(past, name, number)] == [provider] * 4


@pytest.fixture(scope="module")
def past() -> ToolRunner:
    return ToolRunner()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = World(tmp_path_factory.mktemp("providers"), quiet=0.0)
    recorded(world, "one", "agenttrace", "x")
    world.seal()
    return world


@settings(max_examples=40)
@given(
    model=st.none()
    | st.text(max_size=20)
    | st.sampled_from([case[0] for case in CASES]).flatmap(lambda name: st.text(max_size=5).map(f"{name}".__add__)),
    agent=st.sampled_from(sorted(FACTS)) | st.text(st.characters(categories=["L"]), min_size=1, max_size=5),
)
def test_they_agree_for_any_model(world: World, past: ToolRunner, model: str | None, agent: str) -> None:
    """Whatever a log names as the model, and whichever agent it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTTRACE_HOME", str(world.settings.home))
        assign(world, "one", agent, model)
        with world.opened_store() as store:
            (session,) = store.find_sessions("one")
            views = store.spans(session)
        with world.courier(Shelf()) as courier:
            entries = courier._ledger.entries(courier._number, "queued", 100)
            ready, _ = courier._assembly.build(entries)
        sent = {each.span.span_id: exported(each.span) for each in ready}
        assert len(sent) == len(views) > 0
        for view in views:
            shown = span_fields(session, view, (), full=False)["attributes"].get("gen_ai.provider.name")
            assert [sent[view.span_id], told_to_agents(past, "one", view.span_id.hex())] == [shown, shown]
