"""The simulator speaks DashScope's wire format to the byte, has its sessions, and generates plausible answers."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from typing import Any

import dashscope
from hypothesis import given
from hypothesis import strategies as st

from agenttrace.run.simulator import API_KEY, BUILTIN_APP_IDS, SimulatedCall, Simulator, environment, faults
from agenttrace.run.simulator.builtin_apps import default_answer
from agenttrace.run.simulator.calls import CallLog, CloudSessions
from agenttrace.run.simulator.dashscope_endpoint import AppReply, Mode, frames_of, outputs_of

from .simulator_user import CHAT, INCREMENTAL, User, parsed, with_user

DIMENSIONS = [
    "today",
    "yesterday",
    "this_week",
    "last_week",
    "this_month",
    "last_month",
    "this_quarter",
    "last_quarter",
]

USAGE = {"models": [{"model_id": "qwen-plus", "input_tokens": 7, "output_tokens": 5}]}
_HEX = re.compile(r"[0-9a-f]{32}\Z")

# -- bytes ------------------------------------------------------------------------------------------------------


def built(text: str, mode: Mode, chars: int, *, thoughts: bool = False) -> list[dict[str, Any]]:
    """The frames of a stream as a client decodes them."""
    return parsed(b"".join(frames_of(outputs_of(text, mode, chars, thoughts=thoughts), "5" * 32, "r-1", USAGE)))


@given(text=st.text(max_size=200), mode=st.sampled_from(Mode), chars=st.integers(1, 50), thoughts=st.booleans())
def test_only_the_last_frame_says_stop(text: str, mode: Mode, chars: int, thoughts: bool) -> None:
    """Any text in any mode: every frame is well formed, "null" and without usage until the last, "stop" and billed."""
    *running, last = built(text, mode, chars, thoughts=thoughts)
    assert all(frame["output"]["finish_reason"] == "null" and frame["usage"] == {} for frame in running)
    assert last["output"]["finish_reason"] == "stop"
    assert last["usage"] == USAGE
    assert {frame["output"]["session_id"] for frame in [*running, last]} == {"5" * 32}
    assert {frame["request_id"] for frame in [*running, last]} == {"r-1"}


@given(text=st.text(max_size=200), chars=st.integers(1, 50), thoughts=st.booleans())
def test_deltas_add_up_and_wholes_grow(text: str, chars: int, thoughts: bool) -> None:
    """Incremental frames joined are the text; cumulative frames only ever grow, up to the whole text."""
    assert "".join(frame["output"]["text"] for frame in built(text, Mode.DELTA, chars, thoughts=thoughts)) == text
    wholes = [frame["output"]["text"] for frame in built(text, Mode.WHOLE, chars, thoughts=thoughts)]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(wholes))
    assert wholes[-1] == text


@given(text=st.text(max_size=200), chars=st.integers(1, 50))
def test_workflow_messages_add_up(text: str, chars: int) -> None:
    """message_format: the nodes' pieces are the text, completion is a JSON bool, the last frame has the whole text."""
    *nodes, last = built(text, Mode.MESSAGES, chars)
    messages = [frame["output"]["workflow_message"] for frame in nodes]
    assert "".join(message["message"]["content"] for message in messages) == text
    assert [message["node_is_completed"] for message in messages] == [False] * (len(messages) - 1) + [True]
    assert last["output"]["text"] == text
    assert all("text" not in frame["output"] for frame in nodes)


@given(text=st.text(min_size=1, max_size=200), chars=st.integers(1, 50), thoughts=st.booleans())
def test_thoughts_come_only_when_asked_for(text: str, chars: int, thoughts: bool) -> None:
    """has_thoughts decides whether thoughts are in the frames, for agents and for workflows; the text is the same."""
    for mode in (Mode.DELTA, Mode.WHOLE, Mode.FLOW_THOUGHTS):
        found = built(text, mode, chars, thoughts=thoughts)
        assert any(frame["output"].get("thoughts") for frame in found) is thoughts
    assert built(text, Mode.FLOW_THOUGHTS, chars, thoughts=thoughts)[-1]["output"]["text"] == text


def test_an_answer_is_these_bytes() -> None:
    """A plain answer and a stream, byte for byte, with the text as raw UTF-8."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.answer(CHAT, "欢迎光临")
        plain = await user.call()
        first, request = plain.json["output"]["session_id"], plain.json["request_id"]
        usage = '{"models":[{"model_id":"qwen-plus","input_tokens":62,"output_tokens":3}]}'
        assert plain.body.decode() == (
            f'{{"output":{{"text":"欢迎光临","finish_reason":"stop","session_id":"{first}"}},'
            f'"usage":{usage},"request_id":"{request}"}}'
        )
        stream = await user.call(stream=True, parameters=INCREMENTAL)
        session, request = stream.frames[0]["output"]["session_id"], stream.frames[0]["request_id"]
        pieces = [("欢迎光", "null", "{}"), ("临", "null", "{}"), ("", "stop", usage)]
        assert stream.body.decode() == "".join(
            f'id:{number}\nevent:result\n:HTTP_STATUS/200\ndata:{{"output":{{"session_id":"{session}",'
            f'"finish_reason":"{reason}","text":"{text}"}},"usage":{tokens},"request_id":"{request}"}}\n\n'
            for number, (text, reason, tokens) in enumerate(pieces, 1)
        )
        assert _HEX.match(first)
        assert _HEX.match(session)
        assert stream.headers["Content-Type"].startswith("text/event-stream")

    with_user(check, chunk_chars=3)


def test_a_delay_changes_no_byte() -> None:
    """Frames sent one by one are the same frames, in the same order, as those sent at once."""

    async def check(simulator: Simulator, user: User) -> None:
        at_once = await user.call(stream=True, parameters=INCREMENTAL)
        simulator.chunk_delay = 0.001
        slowly = await user.call(stream=True, parameters=INCREMENTAL)
        assert slowly.complete
        texts = [[frame["output"]["text"] for frame in seen.frames] for seen in (at_once, slowly)]
        assert texts[0] == texts[1]
        assert len(texts[0]) > 3

    with_user(check)


def test_the_official_sdk_understands_it() -> None:
    """dashscope's own Application.call reads text, session and usage, plain and streamed, and the errors."""

    async def check(simulator: Simulator, user: User) -> None:
        def ask(**more: Any) -> Any:  # noqa: ANN401 - the SDK's own types
            call: Any = dashscope.Application.call
            found = call(base_address=simulator.base_url, api_key=API_KEY, app_id=CHAT, prompt="你好", **more)
            return list(found) if more.get("stream") else found

        plain = await asyncio.to_thread(ask)
        assert plain.status_code == 200
        assert plain.output.text == simulator.calls[-1].text
        assert plain.usage.models[0].input_tokens > 60
        chunks = await asyncio.to_thread(ask, stream=True, incremental_output=True, session_id=plain.output.session_id)
        assert "".join(chunk.output.text for chunk in chunks) == simulator.calls[-1].text
        assert chunks[-1].output.session_id == plain.output.session_id
        simulator.script(CHAT, faults.status("Throttling.RateQuota", 429))
        refused = await asyncio.to_thread(ask)
        assert (refused.status_code, refused.code) == (429, "Throttling.RateQuota")

    with_user(check, api_key=API_KEY)


# -- requests that are wrong --------------------------------------------------------------------------------------


def test_wrong_requests_are_refused() -> None:
    """A wrong key is 401, no prompt or no JSON 400, another path 404, another method 405; each with code and id."""

    async def check(simulator: Simulator, user: User) -> None:
        path, headers = f"/api/v1/apps/{CHAT}/completion", {"Authorization": f"Bearer {API_KEY}"}
        seen = {
            (401, "InvalidApiKey"): await user.call(key="another"),
            (400, "InvalidParameter"): await user.call(prompt=None),
            (404, "NotFound"): await user.send("/api/v1/apps//completion", b"{}", headers),
            (405, "MethodNotAllowed"): await user.send(path, headers=headers, method="GET"),
        }
        assert {(found.status, found.json["code"]) for found in seen.values()} == set(seen)
        assert all(set(found.json) == {"code", "message", "request_id"} for found in seen.values())
        for body in (b"", b"[]", b"{", b'{"input":"x"}', b'{"input":{"prompt":""}}', b'{"input":{"messages":[1]}}'):
            assert (await user.send(path, body, headers)).status == 400
        assert (await user.call()).status == 200
        assert [call.outcome for call in simulator.calls] == ["refused"] * 8 + ["answered"]

    with_user(check, api_key=API_KEY)


def test_the_key_is_not_logged() -> None:
    """The log of calls has their headers, but never the Authorization."""

    async def check(simulator: Simulator, user: User) -> None:
        await user.call(key="very-secret")
        await user.call(key="very-secret", stream=True)
        told = await user.send("/__calls?last=10", method="GET")
        assert len(told.json["calls"]) == 2
        assert b"very-secret" not in told.body
        assert "very-secret" not in repr(simulator.calls)
        assert simulator.calls[1].headers["x-dashscope-sse"] == "enable"

    with_user(check)


# -- sessions -----------------------------------------------------------------------------------------------------


@given(pauses=st.lists(st.sampled_from([1, 3599, 3600, 5000]), max_size=12), rounds=st.integers(1, 4))
def test_a_session_lasts_an_hour_and_some_rounds(pauses: list[int], rounds: int) -> None:
    """A session has its history exactly while the last round is less than an hour ago and below the limit of rounds."""
    now = 0.0
    sessions = CloudSessions(seconds=3600, rounds=rounds, clock=lambda: now)
    sessions.add_round("s", [{"role": "user", "content": "0"}], "0")
    used = 1
    for pause in pauses:
        now += pause
        history = sessions.history("s")
        assert (history is not None) == (pause < 3600 and used < rounds)
        if history is None:
            assert sessions.history("s") is None
            return
        assert len(history) == 2 * used
        sessions.add_round("s", [*history, {"role": "user", "content": "more"}], "yes")
        used += 1


def contents(call: SimulatedCall) -> list[str]:
    """The texts of the turns that the model saw."""
    return [str(turn["content"]) for turn in call.context]


def test_a_dialogue_goes_on_until_its_session_ends() -> None:
    """With the session id the model sees the history; after an hour the answer has a new id and no history."""
    now = 0.0

    async def check(simulator: Simulator, user: User) -> None:
        nonlocal now
        simulator.answer(CHAT, "好")
        first = (await user.call(prompt="一")).json["output"]["session_id"]
        second = (await user.call(prompt="二", session_id=first, stream=True)).frames[-1]["output"]["session_id"]
        assert second == first
        assert contents(simulator.calls[-1]) == ["一", "好", "二"]
        now = 3600.0
        third = (await user.call(prompt="三", session_id=first)).json["output"]["session_id"]
        assert third != first
        assert contents(simulator.calls[-1]) == ["三"]

    with_user(check, clock=lambda: now)


def test_messages_win_over_the_session() -> None:
    """With messages the session id is ignored, the prompt becomes the last turn, and a new session begins."""

    async def check(simulator: Simulator, user: User) -> None:
        first = (await user.call(prompt="一")).json["output"]["session_id"]
        messages = [{"role": "user", "content": "甲"}, {"role": "assistant", "content": "乙"}]
        answer = await user.call(prompt="丙", session_id=first, messages=messages)
        assert contents(simulator.calls[-1]) == ["甲", "乙", "丙"]
        assert answer.json["output"]["session_id"] != first

    with_user(check)


def test_session_faults_meet_calls_in_a_session_only() -> None:
    """session_expired waits for a call that relies on a session; session_changed answers without the history."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.script(CHAT, faults.session_expired(), faults.session_changed())
        changed = (await user.call(prompt="一")).json["output"]["session_id"]
        refused = await user.call(prompt="二", session_id=changed)
        assert (refused.status, refused.json["code"]) == (400, "InvalidParameter.SessionExpired")
        simulator.script(CHAT, faults.session_changed())
        other = (await user.call(prompt="三", session_id=changed)).json["output"]["session_id"]
        assert other != changed
        assert contents(simulator.calls[-1]) == ["三"]

    with_user(check)


# -- answers ------------------------------------------------------------------------------------------------------


def said(app: str, prompt: str, seed: int = 0, **biz_params: str) -> str:
    wanted = AppReply.read({"input": {"prompt": prompt, "biz_params": biz_params}})
    return default_answer(BUILTIN_APP_IDS[app], wanted, wanted.turns, seed)


FIELDS = {
    "app2_finance": {"time_dimension", "period", "summary", "revenue", "insights", "suggestions"},
    "app3_clue": {"member_name", "clues"},
    "app4_analysis": {"member_name", "relation", "one_line_summary", "task_description", "action_suggestions"},
    "app5_tactics": {"member_name", "tactics"},
    "app6_note": {"member_name", "score", "summary", "sentiment", "clues"},
    "app7_customer": {"member_name", "summary", "profile", "strategies"},
    "app8_consolidate": {"member_name", "summary", "clues"},
}


@given(app=st.sampled_from(sorted(FIELDS)), prompt=st.text(min_size=1), seed=st.integers(0, 5))
def test_the_same_question_gets_the_same_object(app: str, prompt: str, seed: int) -> None:
    """App2 to App8 answer with a JSON object with their fields to any prompt, and the same one for the same seed."""
    answer = said(app, prompt, seed)
    assert set(json.loads(answer)) == FIELDS[app]
    assert said(app, prompt, seed) == answer


@given(dimension=st.sampled_from(DIMENSIONS), in_prompt=st.booleans(), seed=st.integers(0, 50))
def test_finance_answers_for_the_asked_period(dimension: str, in_prompt: bool, seed: int) -> None:
    """App2 names the time dimension of the prompt or of biz_params, and its parts add up to its total."""
    answer = json.loads(
        said("app2_finance", f"分析 {dimension}", seed)
        if in_prompt
        else said("app2_finance", "分析", seed, t=dimension)
    )
    revenue = answer["revenue"]
    assert answer["time_dimension"] == dimension
    assert revenue["total"] == revenue["table"] + revenue["coach"] + revenue["goods"]


@given(app=st.sampled_from(sorted(set(FIELDS) - {"app2_finance"})), nested=st.booleans())
def test_the_answer_uses_the_name_in_the_question(app: str, nested: bool) -> None:
    """The member that the prompt names, also in the quoted result of another app, is the one the answer is about."""
    context = json.dumps({"member_name": "张小伟"}, ensure_ascii=False)
    prompt = json.dumps({"app3": context}, ensure_ascii=False) if nested else context
    assert json.loads(said(app, prompt))["member_name"] == "张小伟"


def test_chat_differs_with_the_question_and_remembers() -> None:
    """App1 answers different questions differently, and with a history refers to the question before."""

    async def check(simulator: Simulator, user: User) -> None:
        first = await user.call(prompt="今天营业额如何")
        await user.call(prompt="哪些会员要联系", session_id=first.json["output"]["session_id"])
        money, members = (call.text for call in simulator.calls)
        assert "营业额" in money
        assert "今天营业额如何" in members

    with_user(check)


def test_answers_can_be_set() -> None:
    """A text, an object, or a function of the request's body is the answer of the app, until it is reset."""

    async def check(simulator: Simulator, user: User) -> None:
        simulator.answer("mine", {"好": 1})
        assert json.loads((await user.call("mine")).json["output"]["text"]) == {"好": 1}
        simulator.answer("mine", lambda body: body["input"]["prompt"] * 2)
        assert (await user.call("mine", "回声")).json["output"]["text"] == "回声回声"
        simulator.answer("mine", None)
        assert (await user.call("mine", "回声")).json["output"]["text"] not in ("", "回声回声")

    with_user(check)


# -- log and environment -----------------------------------------------------------------------------------


@given(kept=st.integers(1, 30), arriving=st.integers(0, 100))
def test_the_log_is_bounded_and_the_counts_are_not(kept: int, arriving: int) -> None:
    """The log has only the last calls, always the newest, while every call is counted."""
    log = CallLog(kept)
    for number in range(arriving):
        log.begin(SimulatedCall(app_id="a", body={}, headers={}, stream=False, at=number))
        assert len(log.calls) <= kept
        assert log.calls[-1].at == number
    assert log.counts().get("a", {}).get("calls", 0) == arriving


def test_the_environment_names_all_variables() -> None:
    """The variables are those of the specification: key, eight app ids and the token, plus the base URL; and those of
    the applications for recorded sessions."""
    names = ["1_CHAT", "2_FINANCE", "3_CLUE", "4_ANALYSIS", "5_TACTICS", "6_NOTE", "7_CUSTOMER", "8_CONSOLIDATE"]
    names += ["SESSION_SUMMARY", "SESSION_REVIEW", "SESSION_SCORE"]
    expected = {f"DASHSCOPE_APP_ID_{name}" for name in names}
    variables = environment("http://127.0.0.1:1/api/v1")
    assert set(variables) == expected | {"DASHSCOPE_API_KEY", "DASHSCOPE_BASE_URL", "INTERNAL_API_TOKEN"}
    assert {variables[name] for name in expected} == set(BUILTIN_APP_IDS.values())
    assert variables["DASHSCOPE_BASE_URL"] == "http://127.0.0.1:1/api/v1"
