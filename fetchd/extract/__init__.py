"""HTML to markdown: the main article, the whole page, or, of pages too wild for either, the plain text.

rendering      the rules of SPEC 2: which of the three, and what its label is
article        main article: the blocks of a page that are its content
whole_page     whole page
plain_text     every visible word in linear time, whatever the page
pool           `Extractor`: runs the rendering away from the event loop, bounded in time

tree           HTML to a tree that is whole
visibility     what a reader of the page does not see
segments       a tree cut into blocks of text
features       what tells content from boilerplate
content_model  how likely a block is content (content_model.json; benchmarks/extract/train.py makes it)
selection      which blocks are kept
title          a title that stands apart from its article
article_pages  what is not the article on a page that says it is one
links          hrefs made absolute against the final URL or the page's own base
markdown       a tree as markdown
bounds         how much may come out

`article_markdown(html, url)` and `whole_page_markdown(html, url)` work in the calling thread and start nothing.
"""

from .article import article_markdown
from .whole_page import whole_page_markdown

__all__ = ["article_markdown", "whole_page_markdown"]
