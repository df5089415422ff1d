"""An object that fits a JSON schema, as a model with structured output would give one."""

from __future__ import annotations

from typing import Any

_PLAIN: dict[str, Any] = {"integer": 1, "number": 1.5, "boolean": True, "null": None, "array": [], "object": {}}
#: Schemas that contain themselves end somewhere.
_DEEPEST = 12


def example(schema: dict[str, Any], text: str, root: dict[str, Any] | None = None, depth: int = 0) -> Any:  # noqa: ANN401
    """A value for the schema; its strings are the text."""
    root = root or schema
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    if (inner := _inner(schema, root)) is not None and depth < _DEEPEST:
        return example(inner, text, root, depth + 1)
    kind = schema.get("type")
    kind = next((name for name in kind if name != "null"), "null") if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        fields = schema.get("properties", {}) if depth < _DEEPEST else {}
        return {name: example(part, text, root, depth + 1) for name, part in fields.items()}
    if kind == "array" and isinstance(schema.get("items"), dict) and depth < _DEEPEST:
        return [example(schema["items"], text, root, depth + 1)]
    return _PLAIN.get(str(kind), text)


def _inner(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any] | None:
    """The schema that it stands for: a reference, or the first of several that will do."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found: Any = root
        for name in reference[2:].split("/"):
            found = found.get(name, {}) if isinstance(found, dict) else {}
        return found if isinstance(found, dict) else {}
    for word in ("anyOf", "oneOf", "allOf"):
        if schema.get(word):
            first = schema[word][0]
            return first if isinstance(first, dict) else {}
    return None
