"""A DashScope simulator: a real HTTP server that speaks the Application API, for the demo, tests and benchmarks."""

from __future__ import annotations

from agenttrace.run.simulator import faults
from agenttrace.run.simulator.builtin_apps import API_KEY, BUILTIN_APP_IDS, INTERNAL_TOKEN, environment
from agenttrace.run.simulator.calls import SimulatedCall
from agenttrace.run.simulator.faults import Fault
from agenttrace.run.simulator.simulator import Simulator

__all__ = [
    "API_KEY",
    "BUILTIN_APP_IDS",
    "INTERNAL_TOKEN",
    "Fault",
    "SimulatedCall",
    "Simulator",
    "environment",
    "faults",
]
