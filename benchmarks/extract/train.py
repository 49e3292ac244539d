"""Learns fetchd/extract/content_model.json from the page corpora.

    python -m benchmarks.extract.train             writes the model
    python -m benchmarks.extract.train --check     five-fold by site: how it does on pages it has not seen

Needs lightgbm, which is not in the lock: nothing but this uses it. The same corpora and versions give the same file.

A block is content when at least half of its words are in the truth of its page, found by aligning the words of
both. Each page weighs the same but for its size to the power of 1/4; the fixtures of defuddle-md weigh less,
since many are too small to be pages.
"""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import math
import random
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any
from urllib.parse import urlsplit

from fetchd.extract import content_model
from fetchd.extract.content_model import ContentModel
from fetchd.extract.features import NAMES, block_features
from fetchd.extract.segments import Page, segment_page
from fetchd.extract.selection import select_blocks
from fetchd.extract.tree import parse_page
from fetchd.extract.visibility import hide_unseen

from . import corpora
from .scores import plain_words, shingle_counts, shingle_f1, word_f1

_WORD = re.compile(r"\w+")
_PARAMETERS = {
    "objective": "binary", "learning_rate": 0.06, "num_leaves": 12, "min_data_in_leaf": 30,
    "feature_fraction": 0.4, "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5,
    "verbosity": -1, "num_threads": 1, "seed": 1, "deterministic": True,
}  # fmt: skip
_TREES = 150
_MIN_SITES = 6
"""Sites on which a word must be seen in names before it has a weight."""


@dataclass(slots=True)
class Sample:
    """A page, its blocks, and which of them are content. tokens: per word in names, content and other share."""

    corpus: str
    page: corpora.Page
    truth: str
    blocks: Page
    words: list[int]
    content: list[float]
    tokens: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def site(self) -> str:
        """Pages of one site are learned from, or tested on, together."""
        return urlsplit(self.page.url).hostname or self.page.name


def load_samples() -> list[Sample]:
    """Every page of the three corpora that has text."""
    samples = []
    for corpus, pages in (
        ("wcxb", corpora.load_wcxb()),
        ("articles", corpora.load_article_extraction()),
        ("defuddle", corpora.load_defuddle()),
    ):
        for page in pages:
            root = parse_page(page.html).root
            if root is None:
                continue
            hide_unseen(root)
            read = segment_page(root)
            if not any(block.text for block in read.blocks):
                continue
            truth = plain_words(page.truth) if corpus == "defuddle" else page.truth
            words, content = label_blocks(read, truth)
            sample = Sample(corpus, page, truth, read, words, content)
            sample.tokens = _count_tokens(sample)
            samples.append(sample)
    return samples


def label_blocks(page: Page, truth: str) -> tuple[list[int], list[float]]:
    """Words of each block, and the share of them that the truth has too."""
    wanted = _WORD.findall(truth.lower())
    ours, owner = [], []
    for n, block in enumerate(page.blocks):
        for word in _WORD.findall(block.text.lower()):
            ours.append(word)
            owner.append(n)
    words = [0] * len(page.blocks)
    for n in owner:
        words[n] += 1
    matched = [0] * len(page.blocks)
    size = len(ours) * len(wanted)
    for match in difflib.SequenceMatcher(
        None, ours, wanted, autojunk=size > 200_000_000
    ).get_matching_blocks():
        for position in range(match.a, match.a + match.size):
            matched[owner[position]] += 1
    shingles = set(zip(*(wanted[start:] for start in range(5)), strict=False))
    content = []
    for n, block in enumerate(page.blocks):
        share = matched[n] / words[n] if words[n] else 0.0
        if share < 0.5 and words[n] >= 6:  # out of order, but there
            own = _WORD.findall(block.text.lower())
            own_shingles = list(zip(*(own[start:] for start in range(5)), strict=False))
            share = max(share, sum(shingle in shingles for shingle in own_shingles) / len(own_shingles))
        content.append(share)
    return words, content


def _count_tokens(sample: Sample) -> dict[str, tuple[float, float]]:
    total = sum(sample.words)
    counts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for frame in sample.blocks.frames:
        if not frame.tokens or not frame.blocks:
            continue
        span = range(frame.first, frame.first + frame.blocks)
        good = sum(sample.words[n] for n in span if sample.content[n] >= 0.5)
        other = sum(sample.words[n] for n in span) - good
        for token in frame.tokens:
            counts[token][0] += math.sqrt(good / total)
            counts[token][1] += math.sqrt(other / total)
    return {token: (min(good, 2.0), min(other, 2.0)) for token, (good, other) in counts.items()}


class TokenCounts:
    """The words in names over many pages."""

    def __init__(self, samples: list[Sample]) -> None:
        self._good: defaultdict[str, float] = defaultdict(float)
        self._other: defaultdict[str, float] = defaultdict(float)
        self._pages: Counter[str] = Counter()
        for sample in samples:
            if sample.corpus != "defuddle":
                for token, (good, other) in sample.tokens.items():
                    self._good[token] += good
                    self._other[token] += other
                    self._pages[token] += 1
        self._base = math.log(sum(self._other.values()) / sum(self._good.values()))

    def weights(self, without: Sample | None = None) -> dict[str, float]:
        """Shrunk log odds. A page is learned from with weights that do not know it, as unseen pages are."""
        own = without.tokens if without is not None and without.corpus != "defuddle" else {}
        weights = {}
        for token in sorted(self._pages):
            good, other, pages = self._good[token], self._other[token], self._pages[token]
            if token in own:
                good, other, pages = good - own[token][0], other - own[token][1], pages - 1
            if pages >= _MIN_SITES and len(token) <= 20:
                odds = (math.log((good + 0.5) / (other + 0.5)) + self._base) * pages / (pages + 4)
                weights[token] = round(max(-2.5, min(2.5, odds)), 2)
        return weights


def train(samples: list[Sample]) -> dict[str, Any]:
    """The table of a model."""
    import lightgbm
    import numpy

    counts = TokenCounts(samples)
    rows: list[list[float]] = []
    labels: list[int] = []
    importance: list[float] = []
    for sample in samples:
        total = sum(sample.words)
        share = 0.3 if sample.corpus == "defuddle" else 1.0
        for n, row in enumerate(block_features(sample.blocks, counts.weights(sample))):
            if sample.words[n]:
                rows.append(row)
                labels.append(int(sample.content[n] >= 0.5))
                importance.append((sample.words[n] / total) ** 0.75 * share)
    scale = len(importance) / sum(importance)
    data = lightgbm.Dataset(numpy.array(rows), labels, weight=[value * scale for value in importance])
    booster = lightgbm.train(_PARAMETERS, data, _TREES)
    trees = [_read_tree(tree["tree_structure"]) for tree in booster.dump_model()["tree_info"]]
    return {"features": list(NAMES), "weights": counts.weights(), "base": 0.0, "trees": trees}


def _read_tree(node: dict[str, Any]) -> Any:
    if "leaf_value" in node:
        return round(node["leaf_value"], 4)
    if node["decision_type"] != "<=":
        raise ValueError(f"a split of another kind: {node['decision_type']}")
    limit = float(f"{node['threshold']:.6g}")
    return [node["split_feature"], limit, _read_tree(node["left_child"]), _read_tree(node["right_child"])]


def as_model(table: dict[str, Any]) -> ContentModel:
    """The model of a table, as the package reads it."""
    trees = tuple(content_model.read_node(tree) for tree in table["trees"])
    return ContentModel(table["weights"], table["base"], trees)


def score(samples: list[Sample], likelihoods: list[list[float]]) -> dict[str, float]:
    """Word F1 of WCXB overall and by type, shingle F1 of article-extraction, over the text of the blocks kept."""
    words: dict[str, list[float]] = defaultdict(list)
    shingles = []
    for sample, values in zip(samples, likelihoods, strict=True):
        kept = select_blocks(sample.blocks, values)
        text = "\n".join(block.text for block, keep in zip(sample.blocks.blocks, kept, strict=True) if keep)
        if sample.corpus == "wcxb":
            words["all"].append(word_f1(text, sample.truth))
            words[sample.page.kind].append(words["all"][-1])
        elif sample.corpus == "articles":
            shingles.append(shingle_counts(text, sample.truth))
    scores = {kind: round(mean(values), 4) for kind, values in words.items()}
    return scores | {"article-extraction": round(shingle_f1(shingles), 4)}


def cross_validate(samples: list[Sample], folds: int = 5, seed: int = 1) -> dict[str, float]:
    """Scores of pages by models that saw no page of their site."""
    sites = sorted({sample.site for sample in samples})
    random.Random(seed).shuffle(sites)
    fold_of = {site: n % folds for n, site in enumerate(sites)}
    likelihoods: dict[int, list[float]] = {}
    for fold in range(folds):
        model = as_model(train([sample for sample in samples if fold_of[sample.site] != fold]))
        for n, sample in enumerate(samples):
            if fold_of[sample.site] == fold:
                likelihoods[n] = model.likelihoods(sample.blocks)
    return score(samples, [likelihoods[n] for n in range(len(samples))])


def main() -> int:
    """Train, or cross-validate."""
    parser = argparse.ArgumentParser(prog="benchmarks.extract.train", description=__doc__)
    parser.add_argument("--check", action="store_true", help="cross-validate instead of writing the model")
    parser.add_argument("--seed", type=int, default=1, help="of the folds")
    arguments = parser.parse_args()
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    samples = load_samples()
    if arguments.check:
        print(json.dumps(cross_validate(samples, seed=arguments.seed), indent=2))
        return 0
    table = train(samples)
    path = Path(content_model.__file__).with_name("content_model.json")
    lines = [
        f'"{key}": {json.dumps(table[key], separators=(",", ":"))}' for key in ("features", "weights", "base")
    ]
    trees = ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in table["trees"])
    path.write_text("{" + ",\n".join([*lines, f'"trees": [\n{trees}\n]']) + "}\n", "utf-8")
    print(f"{path}: {len(table['trees'])} trees, {len(table['weights'])} words, {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
