from __future__ import annotations

from html import unescape

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from p3iv.drawing.html import join, shorten, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>", tag("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"
    assert tag("a", class_="x", stroke_width=1.0, title='"><script>') == (
        '<a class="x" stroke-width="1" title="&#34;&gt;&lt;script&gt;"></a>'
    )
    assert tag("img", alt="", src=None) == '<img alt="">'


@given(st.text(st.characters(exclude_categories=[])))
def test_any_text_can_be_written_and_opens_no_tag(text: str) -> None:
    written = join(text)
    assert not {"<", ">", '"', "'"} & set(written)
    assert isinstance(written, Markup)
    assert len(unescape(written.encode("utf-8").decode("utf-8"))) == len(text)


def test_shorten_keeps_one_line() -> None:
    assert shorten("a\n b\tc", 9) == "a b c"
    assert shorten("abcdefghij", 5) == "abcd…"
