"""What may stand in a line: texts cut, URLs without user info, query and fragment, numbers that JSON has."""

import math
import re

MAX_TEXT = 2048


def clip_text(text: str) -> str:
    """`text`, or its first `MAX_TEXT` characters and a mark that says how long it was."""
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}...[cut, {len(text)} characters]"


def clip_optional(text: str | None) -> str | None:
    """`clip_text`, None kept."""
    return None if text is None else clip_text(text)


def strip_url(url: str | None) -> str | None:
    """`url` without user info, query and fragment, cut. A display form (SPEC 1.6) passes unchanged."""
    if url is None:
        return None
    return clip_text(_strip(url))


def strip_message(message: str | None) -> str | None:
    """`message` with every URL in it stripped as by `strip_url`, cut."""
    if message is None:
        return None
    message = clip_text(message)
    if "://" in message and ("?" in message or "#" in message or "@" in message):
        message = _WORD.sub(lambda match: _strip_word(match[0]), message)
    return message


def round_ms(value: float | None) -> float | None:
    """Milliseconds to three decimals; what is no finite number is None (JSON has no other numbers)."""
    return None if value is None or not math.isfinite(value) else round(value, 3)


_WORD = re.compile(r"\S+")
_QUERY = re.compile(r"[?#]")
_AUTHORITY_END = re.compile(r"[/\\?#]")


def _strip(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if mark:
        found = _AUTHORITY_END.search(rest)
        end = found.start() if found else len(rest)
        at = rest.rfind("@", 0, end)
        rest = rest[at + 1 :]
    return _QUERY.split(scheme + mark + rest, maxsplit=1)[0]


def _strip_word(word: str) -> str:
    if "://" not in word:
        return word
    stripped = _strip(word)
    # "fetch failed for https://a/b?c=d: network error" keeps its colon.
    return stripped + ":" if word.endswith(":") and not stripped.endswith(":") else stripped
