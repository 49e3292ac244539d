"""What would allow what was refused, for people and as JSON; apart from the log's story, which is slow to import."""

from collections.abc import Mapping
from typing import Final

from proxy_addons.policy.remedies import Change, Reach, Remedy

from .safe_text import escape_text

LONG_LINE: Final = 200
"""Characters from which on a list in the configuration is shown by its new entries alone."""


def render_remedy(remedy: Remedy, purpose: str, file: str) -> str:
    """What to change, or why nothing helps. purpose: such as To allow it; file: what the configuration is called."""
    text = escape_text(remedy.text)
    match remedy.reach:
        case Reach.NEVER:
            return f"No profile can allow it: {text}."
        case Reach.ELSEWHERE:
            return f"No change to a profile would allow it: {text}."
        case Reach.ALLOWED:
            return f"Nothing to change: {text}."
        case Reach.PROFILE:
            shown = [_toml_line(change) for change in remedy.changes]
            lines = [f"{purpose}, in {escape_text(file)}:", "", f"  [profiles.{remedy.profile}]"]
            lines += [f"  {line}" for line in shown]
            notes = [text, *map(escape_text, remedy.warnings)]
            if any(
                line.startswith(f"{change.key} = [...")
                for line, change in zip(shown, remedy.changes, strict=True)
            ):
                notes.append("... stands for the entries that are there already")
            if remedy.is_new:
                notes.append(
                    f'name the new profile where it is to hold: profile = "{remedy.profile}" at a listener of'
                    " [gateway], in [agents.NAME] or in [daemon]"
                )
            lines += ["", *(f"note: {note}" for note in notes if note)]
            lines.append("Then: fetchd config check, and fetchd reload.")
            return "\n".join(lines)


def _toml_line(change: Change) -> str:
    line = change.toml
    if len(line) > LONG_LINE and change.added:
        line = f"{change.key} = [..., {Change('', change.added).toml.partition('[')[2]}"
    return line if line.isprintable() else escape_text(line)


def remedy_document(remedy: Remedy | None) -> Mapping[str, object] | None:
    """What would allow a fetch, as JSON can say it."""
    if remedy is None:
        return None
    return {
        "reach": remedy.reach,
        "text": remedy.text,
        "profile": remedy.profile or None,
        "new_profile": remedy.is_new,
        "set": {change.key: change.value for change in remedy.changes},
        "toml": remedy.toml,
        "warnings": remedy.warnings,
    }
