"""`fetchd extract`: a saved page as the markdown that `fetchd fetch` would give of it. Nothing is contacted.

The file is read as UTF-8, as a body without a declared charset is. What is printed is the content alone: no
header, no envelope, no ceiling. It is text of the page, thus untrusted.
"""

from pathlib import Path
from typing import Final

import click

from fetchd.core.charset import UTF_8, decode_text
from fetchd.extract.rendering import render_page
from proxy_addons.policy.targets import TargetParseError, parse_target

MAX_FILE_BYTES: Final = 64 << 20


@click.command
@click.option("--raw", is_flag=True, help="The whole page instead of its main article.")
@click.option(
    "--url",
    required=True,
    metavar="URL",
    help="Where the page came from; links are made absolute against it.",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
def extract(raw: bool, url: str, file: Path) -> None:
    """Print the saved page FILE (- is standard input) as markdown."""
    try:
        parse_target(url)
    except TargetParseError:
        raise click.BadParameter(
            "not an absolute URL, such as https://example.com/page", param_hint="--url"
        ) from None
    with click.open_file(str(file), "rb") as stream:
        body = stream.read(MAX_FILE_BYTES + 1)
    if len(body) > MAX_FILE_BYTES:
        raise click.BadParameter(f"larger than {MAX_FILE_BYTES} bytes", param_hint="FILE")
    click.echo(render_page(decode_text(body, UTF_8), url, raw=raw).text)
