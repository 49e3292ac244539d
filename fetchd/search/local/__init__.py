"""The search provider `local`: a full-text index over the pages that this installation has read.

Terms. A *scope* is whose pages an index holds: one agent's, or everybody's where they are shared. The *store* is
`fetchd.store.page_texts`, which has the truth; an *index* is made of it, one SQLite file a scope, and may be thrown
away. A *document* is a title and a text; pages with the same document share it.

Direction of data::

    page read ──offer──► feeder (bounded, drops) ──► store ──changes──► index of the scope
    query ──parse──► expression ──index──► numbers of pages ──store──► rows (title, url, age, a piece of the text)

What an index says is only where to look: every row of an answer is taken from the store at that moment, by the
agent's name, so an index that is behind, or damaged, shows nothing that is gone or another's.
"""
