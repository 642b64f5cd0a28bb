from __future__ import annotations

from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from p3iv.report.lettering import text_width, wrap_text
from p3iv.report.markup import Markup, escape, shorten, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>", tag("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"
    assert tag("a", class_="x", stroke_width=1.0, title='"><script>') == (
        '<a class="x" stroke-width="1" title="&quot;&gt;&lt;script&gt;"></a>'
    )
    assert tag("img", alt="", src=None) == '<img alt="">'


@given(st.text(st.characters(exclude_categories=[])))
def test_whatever_a_text_holds_it_can_be_written_and_opens_no_tag(text: str) -> None:
    written = escape(text)
    assert not {"<", ">", '"', "'"} & set(written)
    assert isinstance(written, Markup)
    assert len(unescape(written.encode("utf-8").decode("utf-8"))) == len(text)


@given(st.text(), st.floats(12, 300), st.integers(1, 4), st.booleans())
def test_lines_fit_and_lose_nothing_without_an_ellipsis(text: str, width: float, most: int, bold: bool) -> None:
    lines = wrap_text(text, width, 10, most_lines=most, bold=bold)
    assert 1 <= len(lines) <= most
    assert all(text_width(line, 10, bold=bold) <= width or len(line) == 1 for line in lines)
    if not lines[-1].endswith("…"):
        assert "".join("".join(lines).split()) == "".join(text.split())


def test_shorten_keeps_one_line() -> None:
    assert shorten("a\n b\tc", 9) == "a b c"
    assert shorten("abcdefghij", 5) == "abcd…"
