"""Program text of a shared HTML file with its words coloured, by the class of each: the style sheet has the colours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html import escape
from typing import Any

from agenttrace.masking.rule import MARKER
from agenttrace.views.transcript import visible

#: Longer texts are written as they are: reading their words takes much longer than escaping them.
LONGEST_CODE = 20_000
#: Languages by the endings of files and the names in fences.
_LANGUAGES = {
    **dict.fromkeys(("bash", "sh", "zsh", "shell", "console"), "bash"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cc", "cpp", "hpp", "c++"), "cpp"),
    **dict.fromkeys(("cs", "csharp"), "csharp"),
    **dict.fromkeys(("css", "scss"), "css"),
    **dict.fromkeys(("diff", "patch"), "diff"),
    **dict.fromkeys(("go", "golang"), "go"),
    **dict.fromkeys(("html", "svg", "vue", "xml"), "xml"),
    **dict.fromkeys(("ini", "cfg"), "ini"),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx", "javascript"), "javascript"),
    **dict.fromkeys(("json", "jsonl"), "json"),
    **dict.fromkeys(("kt", "kotlin"), "kotlin"),
    **dict.fromkeys(("makefile", "mk"), "make"),
    **dict.fromkeys(("py", "pyi", "python"), "python"),
    **dict.fromkeys(("rb", "ruby"), "ruby"),
    **dict.fromkeys(("rs", "rust"), "rust"),
    **dict.fromkeys(("ts", "mts", "tsx", "typescript"), "typescript"),
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    **{name: name for name in ("dockerfile", "java", "lua", "php", "sql", "swift", "toml")},
}


def language_of(path: str) -> str | None:
    """The language of a file by its name; ``None`` where it is not known."""
    name = path.replace("\\", "/").rsplit("/", 1)[-1].lower()
    return _LANGUAGES.get(name.rsplit(".", 1)[-1])


def fence_language(info: str) -> str | None:
    """The language of a block of Markdown by the first word behind its fence."""
    return _LANGUAGES.get((info.split() or [""])[0].lower())


def html_code(text: str, language: str | None) -> str:
    """A program text in HTML: escaped, what is hidden made visible, what is masked marked, its words coloured."""
    shown = visible(text)
    written, at = [], 0
    for found in MARKER.finditer(shown):
        written += [_coloured(shown[at : found.start()], language), f"<mark>{escape(found[0])}</mark>"]
        at = found.end()
    return "".join([*written, _coloured(shown[at:], language)])


def _coloured(text: str, language: str | None) -> str:
    if language is None or not text or len(text) > LONGEST_CODE:
        return escape(text, quote=True)
    return "".join(_words(text, language))


def _words(text: str, language: str) -> Iterator[str]:
    said, before = "", ""
    for token, word in _lexer(language).get_tokens(text):
        kind = _class_of(token)
        if kind != before:
            yield _span(said, before)
            said, before = "", kind
        said += word
    yield _span(said, before)


def _span(text: str, kind: str) -> str:
    safe = escape(text, quote=True)
    return f'<span class="{kind}">{safe}</span>' if kind and text.strip() else safe


@cache
def _lexer(language: str) -> Any:  # noqa: ANN401 - Pygments has no types
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

    # As it is: no line end is added, no space is removed.
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)


@cache
def _class_of(token: Any) -> str:  # noqa: ANN401 - as above
    """The class of a word; those of one kind look alike in all languages."""
    from pygments import token as known  # type: ignore[import-untyped]

    classes = (
        (known.Comment, "hc"),
        (known.Keyword, "hk"),
        (known.Name.Builtin, "hk"),
        (known.Name.Tag, "hk"),
        (known.Operator.Word, "hk"),
        (known.String, "hs"),
        (known.Number, "hn"),
        (known.Name.Attribute, "hn"),
        (known.Name.Function, "hf"),
        (known.Name.Class, "hf"),
        (known.Name.Variable, "hf"),
        (known.Generic.Inserted, "hs"),
        (known.Generic.Deleted, "hn"),
    )
    return next((name for kind, name in classes if token in kind), "")
