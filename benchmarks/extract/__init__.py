"""How well pages are extracted, and what that costs: ours beside the libraries, on three public corpora.

corpora   the pages and their truths, read from FETCHD_CORPORA
scores    word F1, shingle F1, and recall and precision of markdown structure
systems   the extractors that are compared
report    the run, its table and its JSON
"""
