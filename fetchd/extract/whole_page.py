"""A whole page as markdown: nothing is left out but what no browser shows."""

from html2text import HTML2Text

from .links import LinkResolver

_LINK_ATTRIBUTES = frozenset({"href", "src"})


class _Renderer(HTML2Text):
    """html2text with links resolved by our own parser: its own raises on the first malformed one."""

    def __init__(self, links: LinkResolver) -> None:
        super().__init__(bodywidth=0)
        self._resolver = links
        self.unicode_snob = True
        self.wrap_links = False
        self.wrap_list_items = False
        self.protect_links = False
        self.ignore_emphasis = False
        self.mark_code = False
        self.backquote_code_style = True
        self.use_automatic_links = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(
            tag,
            [
                (name, self._resolver.resolve(value) if value and name in _LINK_ATTRIBUTES else value)
                for name, value in attrs
            ],
        )


def whole_page_markdown(html: str, url: str) -> str:
    """All of `html`, links absolute against `url`. In this thread, unbounded; may raise anything."""
    return _Renderer(LinkResolver.of_page(html, url)).handle(html)
