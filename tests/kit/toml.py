"""A configuration file written from its values, as much TOML as that takes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_toml(path: Path, document: Mapping[str, Mapping[str, Any]]) -> Path:
    """Tables of keys; a key of `profiles` is a table of its own. Returns `path`."""
    tables = {name: keys for name, keys in document.items() if name != "profiles"}
    tables |= {f"profiles.{name}": keys for name, keys in document.get("profiles", {}).items()}
    path.write_text("\n".join(f"[{name}]\n{_keys(keys)}" for name, keys in tables.items()), "utf-8")
    return path


def _keys(keys: Mapping[str, Any]) -> str:
    return "".join(f"{name} = {_value(value)}\n" for name, value in keys.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value)
