"""The peer LiteLLM proxy from PyPI, in a separate environment, on 127.0.0.1, in front of a fake of OpenAI.

In two configurations: with its master key only, and with the limits and logs that work without an account and without
a database: a key per user with request and token limits (checked in memory), a limit on parallel requests, and one line
in a file per call with its tokens and cost.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.measure import sandbox_environ
from benchmarks.peers import AbsentError
from benchmarks.run_fakes import CHAT_TEXT, CLUES_TEXT, FRAMES
from benchmarks.run_load import Ask
from benchmarks.run_processes import Process

VERSION = "1.106.2"
MASTER_KEY = "sk-bench-master"
_START_SECONDS = 120.0

_CONFIG = """
model_list:
  - model_name: fake
    litellm_params:
      model: openai/fake
      api_base: {upstream}
      api_key: none
      rpm: 10000000
      tpm: 10000000000
    model_info:
      input_cost_per_token: 0.000001
      output_cost_per_token: 0.000002
litellm_settings:
  telemetry: false
  request_timeout: 120
  num_retries: 3
{more_settings}
general_settings:
  master_key: {key}
{more_general}
"""

#: The module that the guarded proxy loads: limits per key, and the log.
_HOOKS = """
import json, os, time
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import UserAPIKeyAuth

async def who(request, api_key):
    if not api_key.startswith("sk-user-"):
        raise Exception("unknown key")
    return UserAPIKeyAuth(
        api_key=api_key, user_id=api_key[8:], rpm_limit=1000000, tpm_limit=1000000000,
        user_rpm_limit=1000000, user_tpm_limit=1000000000, max_parallel_requests=100000,
    )

class Log(CustomLogger):
    def __init__(self):
        super().__init__()
        self.file = os.open(os.environ["BENCH_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def async_log_success_event(self, kwargs, response_obj, start_time, end_time):
        self.write("success", kwargs, response_obj, start_time, end_time)

    async def async_log_failure_event(self, kwargs, response_obj, start_time, end_time):
        self.write("failed", kwargs, response_obj, start_time, end_time)

    def write(self, status, kwargs, response, start, end):
        usage = getattr(response, "usage", None)
        line = {
            "ts": time.time(), "status": status, "model": kwargs.get("model"), "cost": kwargs.get("response_cost"),
            "tokens": getattr(usage, "total_tokens", None), "ms": (end - start).total_seconds() * 1000,
            "prompt": str(kwargs.get("messages"))[:2000],
            "response": response.choices[0].message.content if response is not None else None,
        }
        os.write(self.file, json.dumps(line).encode() + b"\\n")

log = Log()
"""


def installed(peers: Path) -> Path:
    """The program, installed if missing."""
    venv = peers / f"litellm-{VERSION}"
    program = venv / "bin" / "litellm"
    if not program.exists():
        for command in (
            [sys.executable, "-m", "venv", str(venv)],
            [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", f"litellm[proxy]=={VERSION}"],
        ):
            done = subprocess.run(command, capture_output=True)
            if done.returncode:
                raise AbsentError(f"litellm: {done.stderr.decode('utf-8', 'replace')[-300:]}")
    return program


@contextlib.contextmanager
def proxy(peers: Path, work: Path, upstream: str, *, guarded: bool) -> Iterator[tuple[Process, str]]:
    """Run the proxy while the block runs; yields its address."""
    program = installed(peers)
    work.mkdir(parents=True, exist_ok=True)
    (work / "bench_hooks.py").write_text(_HOOKS)
    more_settings = "  callbacks: bench_hooks.log" if guarded else ""
    more_general = "  custom_auth: bench_hooks.who\n  global_max_parallel_requests: 100000" if guarded else ""
    config = work / "config.yaml"
    config.write_text(
        _CONFIG.format(upstream=upstream, key=MASTER_KEY, more_settings=more_settings, more_general=more_general)
    )
    environ = sandbox_environ(
        work / "home",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        LITELLM_TELEMETRY="False",
        LITELLM_LOG="ERROR",
        LITELLM_MODE="PRODUCTION",
        DO_NOT_TRACK="1",
        NO_DOCS="True",
        BENCH_LOG=str(work / "calls.jsonl"),
    )
    port = _free_port()
    command: list[str | Path] = [
        program,
        "--config",
        config,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--num_workers",
        "1",
    ]
    process = Process(command, environ=environ, cwd=work, talks=False)
    try:
        url = f"http://127.0.0.1:{port}"
        _await_ready(url, process)
        yield process, url
    finally:
        process.stop()


def asks(url: str, *, stream: bool, users: int = 2000) -> Iterator[Ask]:
    """Requests of many users in turn."""
    body = {"model": "fake", "messages": [{"role": "user", "content": "今天的营业额怎么样?"}]}
    encoded = msgspec.json.encode(body | ({"stream": True} if stream else {}))
    for number in itertools.count():
        headers = {"Authorization": f"Bearer sk-user-{number % users}", "Content-Type": "application/json"}
        yield Ask(
            url=f"{url}/v1/chat/completions", headers=headers, body=encoded, good=_all_streamed if stream else _all_said
        )


def with_master_key(requests: Iterator[Ask]) -> Iterator[Ask]:
    """The same requests with the master key."""
    for ask in requests:
        yield msgspec.structs.replace(ask, headers=ask.headers | {"Authorization": f"Bearer {MASTER_KEY}"})


def _all_streamed(body: bytes) -> bool:
    frames = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]
    if not frames or frames[-1].strip() != b"[DONE]":
        return False
    choices = [choice for frame in frames[:-1] for choice in msgspec.json.decode(frame)["choices"]]
    pieces = [piece for choice in choices if (piece := choice["delta"].get("content"))]
    return "".join(pieces) == CHAT_TEXT and len(pieces) == FRAMES


def _all_said(body: bytes) -> bool:
    return bool(msgspec.json.decode(body)["choices"][0]["message"]["content"] == CLUES_TEXT)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _await_ready(url: str, process: Process) -> None:
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health/readiness", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.2)
    raise AbsentError(f"litellm did not start: {process.complaints()}")
