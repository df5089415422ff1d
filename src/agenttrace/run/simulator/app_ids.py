"""The eight applications that the simulator knows, and the environment that leads to them."""

from __future__ import annotations

#: What the catalog calls an application, and its id here.
BUILTIN_APP_IDS: dict[str, str] = {
    "app1_chat": "sim-app1-chat",
    "app2_finance": "sim-app2-finance",
    "app3_clue": "sim-app3-clue",
    "app4_analysis": "sim-app4-analysis",
    "app5_tactics": "sim-app5-tactics",
    "app6_note": "sim-app6-note",
    "app7_customer": "sim-app7-customer",
    "app8_consolidate": "sim-app8-consolidate",
}

#: Neither opens anything: they are what the simulator's own environment sets.
API_KEY = "sim-key"
INTERNAL_TOKEN = "sim-internal-token"  # noqa: S105 - a made-up token for a made-up service


def environment(base_url: str) -> dict[str, str]:
    """The variables that point the product at the simulator behind ``base_url``."""
    # "app3_clue" is DASHSCOPE_APP_ID_3_CLUE.
    ids = {f"DASHSCOPE_APP_ID_{name.removeprefix('app').upper()}": app_id for name, app_id in BUILTIN_APP_IDS.items()}
    return {
        "DASHSCOPE_API_KEY": API_KEY,
        "DASHSCOPE_BASE_URL": base_url,
        **ids,
        "INTERNAL_API_TOKEN": INTERNAL_TOKEN,
    }
