"""A tree as GitHub-flavoured markdown, in one pass without recursion; shared by the article and the whole page.

walk            goes over the tree and tells the writer what begins and ends
state           what the elements share while a page is rendered
text_elements   links, headings, quotes, code, formulas
list_elements   lists, and lists of definitions
table_elements  tables of data and of layout
media           pictures, embedded media, form controls
writer          lines out of text, emphasis, links, and the prefixes of quotes and lists
tables          rows of cells to a pipe table; which tables are layout
code            the text and language of a code block
formula         MathML and TeX as one line
escape          characters that markdown would read as marks
"""
