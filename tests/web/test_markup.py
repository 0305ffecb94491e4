"""Elements of pictures, and words with a tone."""

import pytest

from cronce.web.markup import tag


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (tag("text", "a<b", x=1.0), '<text x="1">a&lt;b</text>'),
        (tag("a", tag("b", "&"), href='"'), '<a href="&#34;"><b>&amp;</b></a>'),
        (tag("g", stroke_width=0.12345, class_="c"), '<g stroke-width="0.123" class="c"></g>'),
    ],
)
def test_elements_escape_what_is_put_into_them(made: str, text: str) -> None:
    assert str(made) == text
