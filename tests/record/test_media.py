"""Pictures in lines: the notations of all agents, and what is not a picture that a browser may show."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.config import RecordSettings, Settings, ensure_home
from agenttrace.model import Event
from agenttrace.record.formats.claude_code import ClaudeCode
from agenttrace.record.formats.codex import Codex
from agenttrace.record.formats.contract import Agent
from agenttrace.record.formats.gemini_cli import GeminiCli
from agenttrace.record.formats.kimi_cli import KimiCli
from agenttrace.record.formats.media import MOST_BYTES, Media, described, facts_of, media_in, picture_of
from agenttrace.record.recorder import Recorder
from agenttrace.record.texts.contents import span_contents
from agenttrace.store import open_store

FIXTURE = (
    Path(__file__).resolve().parents[1]
    / "data/kimi-code-migration-fixtures/packages/migration-legacy/test/fixtures/with-image"
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
DATA = base64.b64encode(PNG).decode()
INLINE = {"inlineData": {"mimeType": "image/png", "data": DATA}}
SOURCE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
ADDRESS = f"data:image/png;base64,{DATA}"


def found(line: Any) -> list[Media]:  # noqa: ANN401 - JSON
    return media_in(msgspec.json.encode(line))


@pytest.mark.parametrize(
    ("line", "call"),
    [
        ({"message": {"content": [SOURCE]}}, None),
        (
            {
                "message": {
                    "content": [
                        {
                            "tool_use_id": "t1",
                            "type": "tool_result",
                            "content": [SOURCE],
                        }
                    ]
                },
                "toolUseResult": {"type": "image", "file": {"base64": DATA, "type": "image/png", "originalSize": 264}},
            },
            "t1",
        ),
        ({"payload": {"type": "message", "content": [{"type": "input_image", "image_url": ADDRESS}]}}, None),
        (
            {
                "payload": {
                    "type": "function_call_output",
                    "call_id": "c",
                    "output": [{"type": "input_image", "image_url": ADDRESS}],
                }
            },
            "c",
        ),
        ({"payload": {"type": "image_generation_call", "id": "ig_1", "result": DATA}}, "ig_1"),
        (
            {
                "message": {
                    "payload": {"user_input": [{"type": "image_url", "image_url": {"url": ADDRESS, "id": None}}]}
                }
            },
            None,
        ),
        ({"message": {"parts": [INLINE]}}, None),
        (
            {"toolCalls": [{"id": "x", "result": [{"functionResponse": {"id": "g", "parts": [INLINE]}}]}]},
            "g",
        ),
        ({"data": {"part": {"type": "file", "mime": "image/png", "url": ADDRESS}}}, None),
        (
            {
                "data": {
                    "part": {
                        "type": "tool",
                        "callID": "o",
                        "state": {"attachments": [{"mime": "image/png", "url": ADDRESS}]},
                    }
                }
            },
            "o",
        ),
        (
            {
                "message": {
                    "role": "toolResult",
                    "toolCallId": "p",
                    "content": [{"type": "image", "data": DATA, "mimeType": "image/png"}],
                }
            },
            "p",
        ),
        ({"item": {"message": {"content": [{"type": "imageUrl", "imageUrl": {"url": ADDRESS}}]}}}, None),
        ({"images": [ADDRESS]}, None),
    ],
)
def test_notations(line: object, call: str | None) -> None:
    """Every notation is one picture, with its bytes and the call that it belongs to."""
    (media,) = found(line)
    assert picture_of(media) == ("image/png", PNG)
    assert media.call == call
    assert described(facts_of(media)) == "picture, PNG, 264 bytes"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
            "picture, not in the log, https://example.org/a.png",
        ),
        (
            {"type": "input_image", "image_url": {"url": "https://example.org/a"}},
            "picture, not in the log, https://example.org/a",
        ),
        ({"fileData": {"mimeType": "image/jpeg", "fileUri": "gs://a/b"}}, "picture, JPEG, not in the log, gs://a/b"),
        ({"type": "image"}, "picture, not in the log"),
        ({"video_url": {"url": "data:video/mp4;base64,AAAA"}}, "video, MP4, 3 bytes, not shown"),
    ],
)
def test_not_in_the_log(line: object, text: str) -> None:
    """What cannot be shown is said in words."""
    (media,) = found(line)
    assert described(facts_of(media)) == text
    assert isinstance(picture_of(media), str)


@pytest.mark.parametrize(
    ("media_type", "data", "problem"),
    [
        ("image/svg+xml", base64.b64encode(b"<svg onload='alert(1)'/>").decode(), "unsafe"),
        ("image/png", base64.b64encode(b"  <svg xmlns='x'><script>alert(1)</script></svg>").decode(), "unsafe"),
        ("image/png", base64.b64encode(b"<!doctype html><script>alert(1)</script>").decode(), "unsafe"),
        ("image/png", base64.b64encode(b"MZ" + bytes(100)).decode(), "unknown_type"),
        ("image/png", "not base64 at all!", "damaged"),
        ("image/png", "", "damaged"),
        ("image/png", DATA[:80] + "!!!" + DATA[80:], "damaged"),
        ("image/png", base64.b64encode(PNG + bytes(MOST_BYTES)).decode(), "too_large"),
    ],
    ids=["svg", "svg as png", "html as png", "program", "garbage", "empty", "garbage within", "huge"],
)
def test_hostile(media_type: str, data: str, problem: str) -> None:
    """The type is that of the bytes; what could run, or is too large, is not given out."""
    assert picture_of(Media(media_type=media_type, data=data)) == problem


def test_claimed_type_is_not_trusted() -> None:
    """A JPEG that is called something else is a JPEG."""
    data = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(60)).decode()
    assert picture_of(Media(media_type="text/html", data=data))[0] == "image/jpeg"


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.text(max_size=20)
    | st.sampled_from([DATA, ADDRESS, "image", "image/png", "data:image/"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["type", "data", "source", "url", "mimeType", "image_url", "call_id", "id"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(value=_json)
def test_any_line(value: object) -> None:
    """No line makes it fail, and what is given out is a picture."""
    for media in found({"image": value, "kind": "image/png"}):
        described(facts_of(media))
        shown = picture_of(media)
        assert isinstance(shown, str) or shown[0].startswith("image/")


def test_depth_and_number_are_limited() -> None:
    """A line of a million pictures, or a million levels, is read quickly."""
    assert len(found([f"{ADDRESS}{number}" for number in range(10_000)])) <= 100
    line = b'{"a":' * 900 + msgspec.json.encode(ADDRESS) + b"}" * 900
    assert media_in(line) == []


@pytest.mark.parametrize(
    ("agent", "kind", "number"),
    [
        (Codex(), "response_item/message", 1),
        (Codex(), "event_msg/user_message", 0),
        (ClaudeCode(), "user", 1),
        (ClaudeCode(), "api-request-blob", 0),
        (GeminiCli(), "user", 1),
        (GeminiCli(), "snapshot", 0),
        (KimiCli(), "TurnBegin", 1),
    ],
)
def test_lines_that_repeat_messages_have_none(agent: Agent, kind: str, number: int) -> None:
    """A picture is in one line only, however many lines of an agent repeat it."""
    event = Event(kind, None, None, None)
    assert len(agent.media(event, msgspec.json.encode({"content": [SOURCE]}))) == number


def test_recorded_pictures_are_among_the_texts(tmp_path: Path) -> None:
    """A log of Kimi CLI with a picture and a video: both are said where they were."""
    settings = Settings(home=tmp_path / "home", record=RecordSettings())
    ensure_home(settings)
    recorder = Recorder(settings, paths=[str(FIXTURE)], environ={})
    recorder.run_once()
    recorder.close()
    with open_store(settings) as store:
        (session,) = store.sessions()
        contents = span_contents(store, session, store.spans(session))
    said = [content.text for each in contents.values() for content in each if content.kind == "media"]
    assert said == ["picture, PNG, 3 bytes, not shown: of a kind that is not known", "video, MP4, 3 bytes, not shown"]
