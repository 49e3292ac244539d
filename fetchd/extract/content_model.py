"""How likely each block of a page is content: boosted decision trees over `features`, learned from public pages.

The table beside this file is made by `python -m benchmarks.extract.train`: the weights of words in class, id and
role names, and trees as nested [feature, limit, below or equal, above], with scores as leaves. Leaves are added
up and squashed to 0..1.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from .features import NAMES, block_features
from .segments import Page

type Node = float | tuple[int, float, "Node", "Node"]

_FILE: Final = "content_model.json"


@dataclass(frozen=True, slots=True)
class ContentModel:
    """weights: of words in names; base: the score of a block before any tree."""

    weights: Mapping[str, float]
    base: float
    trees: tuple[Node, ...]

    def likelihoods(self, page: Page) -> list[float]:
        """For each block of the page, 0..1."""
        return [self.likelihood(row) for row in block_features(page, self.weights)]

    def likelihood(self, row: Sequence[float]) -> float:
        """0..1 for one row of features."""
        score = self.base
        for node in self.trees:
            while type(node) is tuple:
                node = node[2] if row[node[0]] <= node[1] else node[3]
            score += node  # type: ignore[operator]
        return 1 / (1 + math.exp(-score))


@cache
def load_content_model() -> ContentModel:
    """The model that is part of the package; read once. Raises ValueError when it does not fit `features`."""
    table = json.loads(files(__package__).joinpath(_FILE).read_text("utf-8"))
    if table["features"] != list(NAMES):
        raise ValueError(f"{_FILE} was made for other features; run python -m benchmarks.extract.train")
    return ContentModel(table["weights"], table["base"], tuple(read_node(tree) for tree in table["trees"]))


def read_node(node: object) -> Node:
    """A tree out of nested lists."""
    if isinstance(node, list):
        feature, limit, below, above = node
        return (int(feature), float(limit), read_node(below), read_node(above))
    return float(node)  # type: ignore[arg-type]
