"""``agenttrace simulate-dashscope``: a simulated DashScope and OpenAI-compatible endpoint on this machine."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttrace.cli import output
from agenttrace.cli.errors import CommandError, UsageError
from agenttrace.cli.stopping import until_stopped
from agenttrace.views import figures

if TYPE_CHECKING:
    from agenttrace.run.simulator import Fault, Simulator

EPILOG = """
  agenttrace simulate-dashscope                                   the eight apps on http://127.0.0.1:9180
  agenttrace simulate-dashscope --latency 0.3 --chunk-delay 0.05  about as slow as the real one
  agenttrace simulate-dashscope --fail-rate 0.2                   every fifth call fails with a 500
  agenttrace simulate-dashscope --fault status:http=503,retry_after=2
  agenttrace simulate-dashscope --fault hang --fail-rate 0.05     one call in twenty is never answered
  agenttrace simulate-dashscope --port 0 --json | jq -r .base_url

Faults: status, error_200, html, hang, reset, half_frame, cut_after, no_finish, error_frame, bad_json, empty_usage,
slow, session_changed, session_expired, unicode_separators. While it runs, POST /__control sets faults and GET /__calls
returns counts.
"""

_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")


def simulate_dashscope(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port; 0 takes a free one.")] = 9180,
    latency: Annotated[float, typer.Option(min=0, metavar="SECONDS", help="Wait before each answer.")] = 0.0,
    chunk_delay: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="Wait before each frame of a stream.")
    ] = 0.0,
    fail_rate: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="SHARE", help="Share of failing calls, 0 to 1.")
    ] = None,
    fault: Annotated[
        str | None, typer.Option(metavar="NAME", help="The kind of failure; options follow as NAME:KEY=VALUE,…")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of answers and failures.")] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON line at the start and one at the end.")
    ] = False,
) -> None:
    """Simulate DashScope's Application API: plain, streamed, with sessions, and with faults on demand.

    The server is also an OpenAI-compatible endpoint, under /v1. It has plausible answers for the eight built-in apps,
    accepts any key, and nothing leaves this machine. Set the printed variables for AgentTrace to use it.
    """
    ordered = _ordered(fault, fail_rate)
    from agenttrace.run.simulator import Simulator

    simulator = Simulator(host=host, port=port, latency=latency, chunk_delay=chunk_delay, seed=seed)
    if ordered is not None:
        simulator.always(None, ordered, rate=1.0 if fail_rate is None else fail_rate)
    if host not in _THIS_MACHINE:
        output.note(f"Listening on {host} without a password: every machine that reaches it can use it.", "yellow")
    _serve(simulator, as_json=as_json)
    _show_end(simulator, as_json=as_json)


def _ordered(fault: str | None, fail_rate: float | None) -> Fault | None:
    """``status:http=503,retry_after=2`` as a fault; a rate alone means errors with status 500."""
    from agenttrace.run.simulator import faults

    if fault is None:
        return None if fail_rate is None else faults.status()
    name, _, options = fault.partition(":")
    pairs = [pair.partition("=") for pair in options.split(",") if pair]
    try:
        return faults.named(name, {key: _value(text) for key, _, text in pairs})
    except ValueError as wrong:
        raise UsageError(str(wrong), "See agenttrace simulate-dashscope --help for examples.") from None


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _serve(simulator: Simulator, *, as_json: bool) -> None:
    async def main(stop: asyncio.Event) -> None:
        await _start(simulator)
        _show_start(simulator, as_json=as_json)
        await stop.wait()
        await simulator.stop()

    until_stopped(main)


async def _start(simulator: Simulator) -> None:
    try:
        await simulator.start()
    except OSError as error:
        reason = error.strerror or str(error)
        where = f"{simulator.host}:{simulator.port}"
        raise CommandError(
            f"cannot listen on {where}: {reason}", "Choose another --port; 0 takes a free one."
        ) from error


def _show_start(simulator: Simulator, *, as_json: bool) -> None:
    from agenttrace.run.simulator import environment

    variables = environment(simulator.base_url)
    if as_json:
        told = {"base_url": simulator.base_url, "openai_url": simulator.openai_url, "environment": variables}
        output.print_json(told, one_line=True)
        return
    output.say(f"DashScope simulator on {simulator.base_url}", "bold")
    output.say("For AgentTrace to use it, set:")
    for name, value in variables.items():
        output.say(f"  export {name}={value}")
    output.say(f"OpenAI-compatible endpoint (any model, any key): {simulator.openai_url}")
    output.say("Ctrl-C stops it.")
    sys.stdout.flush()


def _show_end(simulator: Simulator, *, as_json: bool) -> None:
    counts = simulator.log.counts()
    total = sum(count["calls"] for count in counts.values())
    if as_json:
        summary: dict[str, Any] = {"total": total, "apps": counts}
        output.print_json(summary, one_line=True)
        return
    output.say(f"Stopped after {figures.counted(total, 'call')}.", "bold")
    for app_id, count in sorted(counts.items()):
        outcomes = ", ".join(f"{number} {name}" for name, number in count.items() if name != "calls")
        output.say(f"  {app_id}: {outcomes}")
