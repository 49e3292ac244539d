"""HTML to markdown: the main article, the whole page, or, of pages too wild for either, the plain text.

rendering   the rules of SPEC 2: which of the three, and what its label is
article     main article (trafilatura)
whole_page  whole page (html2text)
plain_text  every visible word in linear time, whatever the page
links       hrefs made absolute against the final URL or the page's own base
pool        `Extractor`: runs the rendering away from the event loop, bounded in time
"""
