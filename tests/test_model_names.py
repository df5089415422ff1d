"""Names of models: the commands and the console say the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agenttrace.views.model_names import model_name, model_names

_CONSOLE = Path(__file__).parents[1] / "web" / "src" / "models.test.ts"
_PRICES = Path(__file__).parents[1] / "src" / "agenttrace" / "prices" / "prices.toml"
_EXAMPLE = re.compile(r'^  (\["[^"]*", "[^"]*"\]),$', re.MULTILINE)


def test_names_are_those_of_the_console() -> None:
    """Every example of the console's tests has the same name here."""
    examples = [json.loads(found) for found in _EXAMPLE.findall(_CONSOLE.read_text("utf-8"))]
    assert len(examples) > 20
    assert {model: model_name(model) for model, _ in examples} == dict(examples)


def test_every_model_with_a_price_has_a_name() -> None:
    """No hyphens between words, and nothing left of dates and builds."""
    models = re.findall(r'^"([^"]+)" = [\[{]', _PRICES.read_text("utf-8"), re.MULTILINE)
    assert len(models) > 100
    for model in models:
        assert re.fullmatch(r"(?:(?:GPT|GLM)-[\d.]+o?|o\d|[A-Z][\w.]*)(?: [\w.]+)*", model_name(model)), model


def test_two_of_one_name_have_their_ids() -> None:
    """Side by side, names tell models apart."""
    found = model_names(["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "qwen3-max"])
    assert list(found.values()) == ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "Qwen3 Max"]


@given(st.text(max_size=30) | st.from_regex(r"(claude|gpt|kimi)[-a-z0-9.@:*\[\]/]{0,20}", fullmatch=True))
def test_any_id_has_a_name(model: str) -> None:
    """Also one that means nothing."""
    assert bool(model_name(model)) == bool(model)
