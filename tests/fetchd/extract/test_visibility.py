"""Bug case C059: what a reader does not see, by one rule for both renderings."""

import pytest

from fetchd.extract import article_markdown, whole_page_markdown

URL = "https://e.example/"
SENTENCE = "The gateway judges every hop before a single byte goes out to the origin. "

HIDDEN = [
    pytest.param("<p hidden>{}</p>", id="hidden"),
    pytest.param("<p hidden=''>{}</p>", id="hidden with an empty value"),
    pytest.param("<div style='display:none'><p>{}</p></div>", id="display none"),
    pytest.param(
        "<p style='color:red; DISPLAY : none !important'>{}</p>", id="display none, otherwise written"
    ),
    pytest.param("<p style='visibility: hidden'>{}</p>", id="visibility"),
    pytest.param("<p style='font-size:0'>{}</p>", id="no size"),
    pytest.param("<p style='font-size: 0px;'>{}</p>", id="no size in pixels"),
    pytest.param("<p style='opacity:0'>{}</p>", id="transparent"),
    pytest.param("<p style='opacity: 0.0;'>{}</p>", id="transparent, as a fraction"),
    pytest.param("<p style='position:absolute;left:-9999px'>{}</p>", id="off the screen"),
    pytest.param("<p style='text-indent: -999em'>{}</p>", id="indented off the screen"),
    pytest.param("<p aria-hidden=true>{}</p>", id="aria-hidden"),
    pytest.param("<template><p>{}</p></template>", id="template"),
    pytest.param("<!-- {} -->", id="comment"),
    pytest.param("<noscript><p>{}</p></noscript>", id="noscript"),
    pytest.param("<script>{}</script>", id="script"),
    pytest.param("<style>{}</style>", id="style"),
]

SEEN = [
    pytest.param("<details><summary>More</summary><p>{}</p></details>", id="details that are closed"),
    pytest.param("<p hidden=until-found>{}</p>", id="hidden until found"),
    pytest.param("<p aria-hidden=false>{}</p>", id="aria-hidden false"),
    pytest.param(
        "<p style='opacity:0.9;font-size:0.8em;margin-left:-10px'>{}</p>", id="small, pale, shifted"
    ),
    pytest.param("<p style='background:url(display:none.png)'>{}</p>", id="a word in another value"),
    pytest.param("<div hidden id='S:0'><p>{}</p></div>", id="what React streams"),
    pytest.param("<p class=hidden>{}</p>", id="a class says nothing: style sheets are not read"),
]


def _page(inner: str) -> str:
    marked = inner.format(SENTENCE[:20] + "HIDDEN")
    return f"<body><article><h1>T</h1><p>{SENTENCE * 4}</p>{marked}<p>{SENTENCE * 2}</p></article>"


@pytest.mark.parametrize("html", HIDDEN)
def test_hidden_text_is_not_content(html: str) -> None:
    assert "HIDDEN" not in whole_page_markdown(_page(html), URL)
    assert "HIDDEN" not in article_markdown(_page(html), URL)


@pytest.mark.parametrize("html", SEEN)
def test_seen_text_is(html: str) -> None:
    assert "HIDDEN" in whole_page_markdown(_page(html), URL)


def test_a_wrapper_that_fades_in_hides_nothing() -> None:
    page = f"<body><div style='opacity:0'><p>{SENTENCE * 5}</p></div><footer>Imprint</footer>"

    assert SENTENCE.strip() in whole_page_markdown(page, URL)
    assert SENTENCE.strip() in article_markdown(page, URL)


def test_what_is_gone_stays_gone_however_long() -> None:
    assert "judges" not in whole_page_markdown(f"<body><div hidden><p>{SENTENCE * 50}</p></div>Imprint", URL)


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        pytest.param("Loading", True, id="a page that is made for scripts shows its noscript"),
        pytest.param(SENTENCE * 50, False, id="one that says as much without does not"),
    ],
)
def test_a_long_noscript(seen: str, shown: bool) -> None:
    page = f"<body><p>{seen}</p><noscript><p>{'Only without scripts. ' * 60}</p></noscript>"

    assert ("Only without scripts." in whole_page_markdown(page, URL)) is shown


def test_tails_of_hidden_elements_stay() -> None:
    assert whole_page_markdown("<p>a<i hidden>b</i>c<script>d</script>e", URL) == "ace"
