"""A simulated DashScope: a real HTTP server that speaks the Application API, for the demo, tests and benchmarks."""

from __future__ import annotations

from agenttrace.run.simulator import faults
from agenttrace.run.simulator.app_ids import API_KEY, BUILTIN_APP_IDS, INTERNAL_TOKEN, environment
from agenttrace.run.simulator.call_log import ReceivedCall
from agenttrace.run.simulator.faults import Fault
from agenttrace.run.simulator.simulator import Simulator

__all__ = [
    "API_KEY",
    "BUILTIN_APP_IDS",
    "INTERNAL_TOKEN",
    "Fault",
    "ReceivedCall",
    "Simulator",
    "environment",
    "faults",
]
