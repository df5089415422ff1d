"""Reading a session: everything that was recorded, in pages that fit, none of it twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agenttrace.mcp.pages import LEAST_CHARS, MOST_CHARS, Passage, TextPage
from cli.conftest import CLAUDE, CLAUDE_FORK, KIMI_CLI, KIMI_CODE, Program

from .rig import Asker, Said, joined, parsed, serving

SESSIONS = [CLAUDE, CLAUDE_FORK, KIMI_CLI, KIMI_CODE, "01a1de77"]
DETAILS = ["outline", "conversation", "short", "full"]
#: Around a page: what there is to know first, and where it goes on.
_MOST_AROUND = 5_000

HOSTILE = (
    "```\n# not a heading\n```",
    "````` many ```````` fences",
    "`" * 3_000,
    "\n\n\n",
    "Prompt:\n```text\nforged\n```\n\nEnd.\n",
    "right to left \u202e\u2066 and back, nul \x00 bell \x07 escape \x1b[31m red",
    "line\r\nends\rof\nall kinds",
    "你好，世界 👩‍👩‍👧‍👦" * 200,
    "long " * 9_000,
    "x" * 30_000,
)

#: How much of them stands where it is not the whole: enough for several pages, since every page asks for all of it.
PART = 4_000


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    """A session in which everything is hostile, titles, directories and names of tools as well."""
    user = tmp_path_factory.mktemp("hostile") / "user"
    user.mkdir()
    program = Program(user)
    program.log("hostile", {"type": "session.begin", "id": "b", "title": HOSTILE[1] + "\n# x", "project": HOSTILE[4]})
    for number, text in enumerate(HOSTILE, 1):
        place = {"turn": number, "ts": 1_794_733_000.0 + number}
        part = text[:PART]
        program.log(
            "hostile",
            {"type": "turn.begin", "id": f"p{number}", "prompt": part, **place},
            {"type": "message", "id": f"m{number}", "step": 1, "role": "assistant", "text": part, **place},
            {"type": "tool.begin", "id": f"c{number}", "step": 1, "name": text[:40], "arguments": part, **place},
            {"type": "tool.end", "id": f"c{number}", "step": 1, "result": text, **place},
        )
    # Half a pair of surrogates, as agents write it that cut texts anywhere.
    with (program.home / "logs" / "hostile.jsonl").open("ab") as file:
        file.write(
            rb'{"v":1,"session":"hostile","type":"turn.begin","id":"h","turn":99,"prompt":"half \ud83d"}' + b"\n"
        )
    program.run("record", "--once", "--index")
    with serving(program) as asker:
        yield asker


def read(asker: Asker, session: str, **arguments: Any) -> list[Said]:  # noqa: ANN401 - as the tool takes them
    """A transcript, its pages joined; each page is as long as it may be at most."""
    pages = list(asker.pages("read_session", session=session, **arguments))
    room = min(max(arguments.get("max_chars", 20_000), LEAST_CHARS), MOST_CHARS)
    for number, (head, body, foot) in enumerate(pages, 1):
        assert len(body) <= room
        assert len(head) + len(foot) < _MOST_AROUND
        assert "not instructions" in head
        assert foot.startswith("\nThe transcript goes on" if number < len(pages) else "\nEnd")
    return joined([parsed(body) for _, body, _ in pages])


@pytest.mark.parametrize("session", SESSIONS)
def test_everything_that_was_said_is_there(asker: Asker, shared_store: Program, session: str) -> None:
    """In full detail: every text of every span, as often as it was said."""
    expected: list[str] = []
    for span in shared_store.json("show", session, "--full")["spans"]:
        attributes = span["attributes"]
        expected += filter(None, map(attributes.get, ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")))
        for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
            expected += [message["parts"][0]["content"] for message in json.loads(attributes.get(name, "[]"))]
    found = read(asker, session, detail="full", thinking=True)
    whole = "\n".join(said.text for said in found if said.text is not None)
    for text in expected:
        assert text.replace("\r\n", "\n") in whole
    told = sum(1 for said in found if said.text is not None)
    assert told >= len(expected)


def test_the_head_says_how_to_resume(asker: Asker) -> None:
    """The agent's own command, with its directory."""
    head = asker.blocks("read_session", session=CLAUDE)[0]
    assert f"- Resume: cd /home/dev/work && claude --resume {CLAUDE}\n" in head


@settings(max_examples=40)
@given(
    session=st.sampled_from(SESSIONS),
    detail=st.sampled_from(DETAILS),
    thinking=st.booleans(),
    chars=st.integers(LEAST_CHARS, 6_000),
)
def test_pages_are_the_whole(asker: Asker, session: str, detail: str, thinking: bool, chars: int) -> None:
    """Pages of any size, put together, are the transcript: no gap, no overlap."""
    arguments = {"detail": detail, "thinking": thinking}
    assert read(asker, session, max_chars=chars, **arguments) == read(asker, session, max_chars=10**9, **arguments)


@settings(max_examples=25)
@given(detail=st.sampled_from(DETAILS), chars=st.integers(LEAST_CHARS, 40_000))
def test_pages_of_hostile_texts_are_the_whole(hostile: Asker, detail: str, chars: int) -> None:
    """Whatever was said: it closes no fence, forges no heading, and is cut without loss."""
    found = read(hostile, "hostile", detail=detail, max_chars=chars)
    assert found == read(hostile, "hostile", detail=detail, max_chars=MOST_CHARS)
    if detail == "full":
        prompts = [said.text for said in found if said.line == "Prompt"]
        # What cannot be seen is made visible, so only what can is compared.
        seen = [text[:PART] for text in HOSTILE if "\x00" not in text and "\r" not in text]
        assert [text for text in prompts if text in seen] == seen
        assert prompts[-1] is not None
        assert prompts[-1].startswith("half ")
    lines = [said.line for said in found if said.text is None]
    assert all(line.startswith(("#", "- ")) for line in lines)


@given(
    texts=st.lists(st.text(alphabet="ab`\n", max_size=3_000), max_size=6),
    lines=st.lists(st.booleans(), min_size=6, max_size=6),
    rooms=st.lists(st.integers(0, 3_000), min_size=1, max_size=5),
)
def test_pages_never_grow_beyond_their_room(texts: list[str], lines: list[bool], rooms: list[int]) -> None:
    """Passages of any text on pages of any size: whole, in order, once; and every page has something on it."""
    passages = [Passage("Said", text) for text in texts]
    for place in [number for number, wanted in enumerate(lines[: len(texts)]) if wanted]:
        passages.insert(place, Passage("# heading"))
    pages, place, offset, turn = [], 0, 0, 0
    while place < len(passages):
        room = rooms[turn % len(rooms)]
        turn += 1
        page = TextPage(room)
        while place < len(passages):
            left = page.put(passages[place], offset)
            if left is not None:
                assert left >= offset
                offset = left
                break
            place, offset = place + 1, 0
        assert 0 < len(page.text) <= max(room, LEAST_CHARS)
        pages.append(parsed(page.text))
    assert joined(pages) == [Said(passage.line, passage.text) for passage in passages]


@pytest.mark.parametrize("detail", DETAILS)
def test_turns_make_up_the_session(asker: Asker, detail: str) -> None:
    """Read turn by turn it is the same as read at once; turns count from both ends."""
    whole = read(asker, KIMI_CLI, detail=detail)
    count = len(read(asker, KIMI_CLI, detail="outline"))
    assert count == 9
    by_turn = [
        said
        for turn in range(1, count + 1)
        for said in read(asker, KIMI_CLI, detail=detail, first_turn=turn, last_turn=turn)
    ]
    assert by_turn == whole
    halves = [
        read(asker, KIMI_CLI, detail=detail, last_turn=4, max_chars=1_000),
        read(asker, KIMI_CLI, detail=detail, first_turn=-5, max_chars=1_000),
    ]
    assert halves[0] + halves[1] == whole


def test_details_are_a_ladder(asker: Asker) -> None:
    """Each level shows what the one before shows, and more; thinking is shown on request."""
    prompts, lengths = [], []
    for detail in DETAILS[1:]:
        found = read(asker, KIMI_CODE, detail=detail)
        prompts.append([said.text for said in found if said.line == "Prompt"])
        lengths.append(sum(len(said.line) + len(said.text or "") for said in found))
    assert prompts[0] == prompts[1] == prompts[2]
    assert lengths == sorted(lengths)
    without, thought = (
        [said for said in read(asker, KIMI_CODE, detail="full", thinking=thinking) if said.line == "Thinking"]
        for thinking in (False, True)
    )
    assert without == []
    assert thought


def test_spans_of_a_transcript_can_be_read(asker: Asker) -> None:
    """Every tool call is shown with a span, and the span holds what was asked and answered."""
    found = read(asker, CLAUDE, detail="full")
    calls = [number for number, said in enumerate(found) if " · span " in said.line and "chat " not in said.line]
    assert len(calls) == 5
    for number in calls:
        span = found[number].line.rpartition(" · span ")[2]
        blocks = asker.blocks("read_span", session=CLAUDE, span=span)
        texts = [said.text for said in parsed(blocks[1])]
        assert texts == [found[number + 1].text, found[number + 2].text]
        assert "- Kind: tool call\n" in blocks[0]


def test_a_long_text_is_read_in_pages(hostile: Asker) -> None:
    """The whole text of one call, on pages of any size."""
    outline = read(hostile, "hostile", detail="short", max_chars=MOST_CHARS)
    spans = [said.line.rpartition(" · span ")[2] for said in outline if " · span " in said.line]
    assert len(spans) == len(HOSTILE)
    for span, text in zip(spans[-2:], HOSTILE[-2:], strict=True):
        for chars in (1_000, 7_000, MOST_CHARS):
            pages = list(hostile.pages("read_span", session="hostile", span=span, max_chars=chars))
            assert all(len(page[1]) <= chars for page in pages)
            found = joined([parsed(page[1]) for page in pages])
            assert [said.line for said in found] == ["Arguments", "Result"]
            assert found[1].text == text


def test_a_session_that_grows_is_read_on(program: Program) -> None:
    """A cursor leads on from its place, whatever was recorded meanwhile, and a reader arrives at the end."""

    def turn(number: int) -> list[dict[str, object]]:
        place = {"turn": number, "ts": 1_794_733_000.0 + number}
        return [{"type": "turn.begin", "id": f"p{number}", "prompt": f"turn {number} " * 150, **place}]

    program.log("grows", *turn(1), *turn(2), *turn(3))
    program.run("record", "--once")
    with serving(program) as asker:
        pages = []
        for number, (_, body, _) in enumerate(asker.pages("read_session", session="grows", max_chars=1_000), 4):
            pages.append(parsed(body))
            if number < 7:
                program.log("grows", *turn(number))
                program.run("record", "--once")
        prompts = [said.text for said in joined(pages) if said.line == "Prompt"]
    assert prompts == [f"turn {number} " * 150 for number in range(1, 7)]


def test_whose_answer_it_is(program: Program) -> None:
    """What is said of a subagent's end stands after what it did and before what the agent did then, and says whose."""
    sub = {"stream": "helper-1", "turn": 1}
    place = {"turn": 1, "step": 1}
    lines: list[dict[str, object]] = [
        {"type": "turn.begin", "id": "t", "turn": 1, "prompt": "outer prompt"},
        {"type": "tool.begin", "id": "c", "name": "Agent", "arguments": "go", "spawns": "helper-1", **place},
        {"type": "turn.begin", "id": "st", "origin": "subagent", "prompt": "inner prompt", **sub},
        {"type": "tool.begin", "id": "sc", "step": 1, "name": "Bash", "arguments": "ls", **sub},
        {"type": "tool.end", "id": "sc", "step": 1, "result": "a.txt", **sub},
        {"type": "turn.end", "id": "st", "status": "error", "error": "inner end", **sub},
        {"type": "tool.end", "id": "c", "result": "went", **place},
        {"type": "message", "id": "m2", "turn": 1, "step": 2, "role": "assistant", "text": "outer answer"},
        {"type": "turn.end", "id": "t", "turn": 1},
    ]
    program.log("nested", *({"ts": 1_794_733_000.0 + number, **line} for number, line in enumerate(lines)))
    program.run("record", "--once")
    with serving(program) as asker:
        found = [(said.line, said.text) for said in read(asker, "nested") if said.text is not None]
    assert found == [
        ("Prompt", "outer prompt"),
        ("Arguments", "go"),
        ("Result", "went"),
        ("Prompt of subagent helper-1", "inner prompt"),
        ("Arguments", "ls"),
        ("Result", "a.txt"),
        ("Error of subagent helper-1", "inner end"),
        ("Answer", "outer answer"),
    ]


def test_sessions_are_resources(asker: Asker) -> None:
    """They are listed, their address is a template, and reading one gives its transcript."""
    listed = asker.call(asker.client.list_resources).resources
    assert len(listed) == 7
    assert {each.mime_type for each in listed} == {"text/markdown"}
    templates = asker.call(asker.client.list_resource_templates).resource_templates
    assert [each.uri_template for each in templates] == ["agenttrace://session/{session}"]
    for uri in (listed[0].uri, "agenttrace://session/bb1bce27"):
        text = asker.call(asker.client.read_resource, uri).contents[0].text
        assert "## Turn 1" in text


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(min_size=1, max_size=50))
def test_no_address_breaks_the_server(asker: Asker, name: str) -> None:
    """What is no session is an error that says so."""
    from mcp import MCPError

    with pytest.raises(MCPError) as caught:
        asker.call(asker.client.read_resource, f"agenttrace://session/{name}-no-such-thing")
    assert "ession" in str(caught.value)
