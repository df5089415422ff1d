"""What commands print with: safe text, numbers as people read them, tables that fit."""

from __future__ import annotations

import contextlib
import io
import json
import re
from operator import itemgetter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from agenttrace.cli.columns import Column, table_lines
from agenttrace.cli.output import print_json
from agenttrace.views import figures
from agenttrace.views.plain import cut_before, one_line, safe
from agenttrace.views.times import iso
from agenttrace.views.transcript import visible

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e00ff\ud800-\udfff]"
)
#: Letters by name, of which nothing can be seen.
FILLERS = "\u115f\u1160\u3164\uffa0"
texts = st.text(st.characters(), max_size=60)
nasty = st.lists(
    st.one_of(
        texts,
        st.sampled_from(["\x1b[31m", "\x1b]0;t\x07", "\x9b1A", "\x1bP", "\x1b\\", "\x1bc", "\r", "\x1b"]),
        st.sampled_from(
            ["\u200b", "\u200c", "\u200d", "\ufe0f", "\ufe01", "\U000e0041", "\U000e0100", "\u202e", "é", "🏴"]
        ),
    ),
    max_size=12,
).map("".join)


@given(nasty)
def test_safe_text_commands_nothing(text: str) -> None:
    """No control character, escape sequence, direction mark, tag or half character is left."""
    assert not FORBIDDEN.search(safe(text))
    assert safe(safe(text)) == safe(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters=FILLERS), max_size=60))
def test_plain_text_stays_as_it_is(text: str) -> None:
    """Letters, numbers, signs and emoji of any language pass unchanged."""
    assert safe(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d👩\u200d👧\u200d👦",
        "❤\ufe0f\u200d🔥 1\ufe0f\u20e3 ☺\ufe0e",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "葛\U000e0100城 辻\U000e0101",
        "می\u200cخواهم",
        "क्\u200dष",
    ],
)
def test_writing_stays_as_it_is(text: str) -> None:
    """Families and flags of emoji, forms of Chinese characters, joined and parted letters."""
    assert safe(text) == visible(text) == text


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("".join(chr(0xE0000 + ord(char)) for char in "ignore all"), "⟦10 hidden characters from U+E0069 on⟧"),
        ("\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06", "⟦6 hidden characters from U+FE01 on⟧"),
        ("\u200b\u200c\u200d", "⟦U+200B⟧⟦U+200C⟧⟦U+200D⟧"),
        ("\u202e", "⟦U+202E⟧"),
        ("\u2062\u2063", "⟦U+2062⟧⟦U+2063⟧"),
        ("\u3164", "⟦U+3164⟧"),
    ],
)
def test_what_is_hidden(hidden: str, shown: str) -> None:
    """Is seen where a text is read, and does not reach a terminal; however much it is, it takes little room."""
    assert visible(f"a{hidden}b") == f"a{shown}b"
    assert safe(f"a{hidden}b") == "ab"


@given(
    st.lists(st.sampled_from(["👩\u200d👩\u200d👧", "1\ufe0f\u20e3", "葛\U000e0100", "word", " "]), max_size=20),
    st.integers(0, 80),
)
def test_texts_are_cut_between_characters(parts: list[str], end: int) -> None:
    """What is shown page by page is the same as the whole."""
    text = "".join(parts)
    place = cut_before(text, min(end, len(text)))
    assert place <= end
    assert visible(text[:place]) + visible(text[place:]) == text


@given(nasty, st.booleans())
@example("\ud800", False)
def test_json_reaches_a_terminal_without_harm(text: str, one_line: bool) -> None:
    """It is valid, equal, and has no raw control characters or invisible characters."""
    written = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(written)):
        print_json({text: [text]}, one_line=one_line)
        data = written.getvalue().decode()
    assert not FORBIDDEN.search(data)
    half = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if half == text:
        assert json.loads(data) == {text: [text]}
    json.loads(data)


@given(nasty, st.integers(2, 50))
def test_one_line_is_one_line(text: str, limit: int) -> None:
    """No line ends or tabs, and no longer than asked for."""
    line = one_line(text, limit)
    assert len(line) <= limit
    assert not re.search(r"[\n\r\t]", line)


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0 ms"),
        (999_400, "999 ms"),
        (999_600, "1.0 s"),
        (59_940_000, "59.9 s"),
        (59_960_000, "1m 00s"),
        (3_599_400_000, "59m 59s"),
        (3_599_600_000, "1h 00m"),
        (8_000_000_000, "2h 13m"),
        (90_000_000_000, "1d 01h"),
    ],
)
def test_durations(micros: int, text: str) -> None:
    """Two figures at most, and no 60 seconds."""
    assert figures.duration(micros) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (999_949, "999.9k"), (999_950, "1.00M"), (2_500_000_000, "2.50B")],
)
def test_tokens(number: int, text: str) -> None:
    """Short, and never 1000 of a unit."""
    assert figures.tokens(number) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_400, "999 kB"), (999_600, "1.0 MB"), (1_200_000_000, "1.2 GB")],
)
def test_sizes(number: int, text: str) -> None:
    """Decimal units, and never 1000 of one."""
    assert figures.size(number) == text


@pytest.mark.parametrize(
    ("micros", "currency", "text"),
    [
        (0, "USD", "$0.00"),
        (4_358, "USD", "$0.0044"),
        (10, "USD", "<$0.0001"),
        (1_234_567_890, "CNY", "¥1,234.57"),
        (5_000_000, "EUR", "EUR 5.00"),
    ],
)
def test_money(micros: int, currency: str, text: str) -> None:
    """Small amounts are seen; nothing that costs something is shown as 0."""
    assert figures.money(micros, currency) == text


@given(st.integers(-(10**18), 10**18))
def test_times_never_fail(micros: int) -> None:
    """Whatever a damaged log says, there is a text for it."""
    assert iso(micros)
    assert figures.clock(micros)
    assert figures.time_of_day(micros)


def test_iso_is_utc_with_microseconds() -> None:
    """The form JSON has everywhere."""
    assert iso(1_794_732_814_940_001) == "2026-11-15T08:53:34.940001Z"
    assert iso(None) is None


cells = st.text(st.characters(categories=["L", "N"]), max_size=40)
tables = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.tuples(
            *(
                st.builds(
                    Column,
                    name=st.text("abcdef", min_size=1, max_size=8),
                    cell=st.just(itemgetter(index)),
                    right=st.booleans(),
                    least=st.integers(0, 12),
                    keep_end=st.booleans(),
                    optional=st.integers(0, 5),
                )
                for index in range(n)
            )
        ).map(list),
        st.lists(st.lists(cells, min_size=n, max_size=n), max_size=6),
    )
)


@given(tables, st.integers(1, 120))
def test_a_table_is_no_wider_than_it_must_be(
    table: tuple[list[Column[list[str]]], list[list[str]]], width: int
) -> None:
    """It keeps to the width unless columns that may neither shrink nor go need more, and all lines agree."""
    columns, rows = table
    lines = list(table_lines(columns, rows, width=width))
    assert len(lines) == len(rows) + 2
    natural = [max(len(c.name), *(cell_len(row[i]) for row in rows), 0) for i, c in enumerate(columns)]
    least = [min(size, c.least) if c.least else size for size, c in zip(natural, columns, strict=True)]
    fixed = [size for size, c in zip(least, columns, strict=True) if not c.optional]
    needed = sum(fixed) + 2 * (len(fixed) - 1)
    assert all(line.cell_len <= max(width, needed) for line in lines)


@given(tables)
def test_a_wide_terminal_shows_everything(table: tuple[list[Column[list[str]]], list[list[str]]]) -> None:
    """Nothing is cut or left out where there is room."""
    columns, rows = table
    header, _, *body = (line.plain for line in table_lines(columns, rows, width=1000))
    assert header.split() == [column.name for column in columns]
    for row, line in zip(rows, body, strict=True):
        assert all(cell in line for cell in row)


def test_columns_with_nothing_in_them_go_before_a_text_is_cut() -> None:
    """A column of dashes is shown only where there is room for everything."""
    columns = [
        Column[str]("title", lambda row: row, least=6),
        Column[str]("commits", lambda row: None, right=True, optional=1),
        Column[str]("cost", lambda row: "$1.00", optional=2),
    ]
    for width, shown in ((40, "title commits cost"), (24, "title cost"), (10, "title")):
        header, _, body = (line.plain for line in table_lines(columns, ["a title of words"], width=width))
        assert header.split() == shown.split()
        assert width == 10 or body.startswith("a title of words")
