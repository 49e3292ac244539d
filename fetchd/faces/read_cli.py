"""`fetchd read`: pages read whole, as page_read gives them: the slice asked for, bound to a digest, with a receipt.

    fetchd read https://docs.rs/ --allow docs.rs --extract links
    fetchd read - < urls.txt --json

Several are read side by side and printed in the order they were asked for; none stops the others.

Exit status (SPEC 1.10), the worst of all pages: 0 done; 2 bad arguments or a failure; 3 no gateway.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from fetchd.app import ONE_SHOT_SERIES, DaemonTools, open_audit_log, open_tools
from fetchd.core.read_arguments import ExtractMode
from fetchd.core.read_packet import JsonText, dump_json
from fetchd.core.tool_definitions import PAGE_READ
from fetchd.errors import NoGatewayError, StaleGatewayError, StoreError
from fetchd.page_read import ReadOutcome
from proxy_addons.audit import AuditError

from .calls import ToolNotAllowedError, require_tool
from .config_option import BadInputError, config_option, state_dir_option
from .fetch_cli import NO_GATEWAY, FetchSettings, agent_option, read_settings, read_urls
from .fetch_display import FetchDisplay
from .fetch_many import iterate, run_in_order
from .fetch_printer import FAILED, for_terminal
from .read_results import render_read, render_read_problem

OpenTools = Callable[[FetchSettings], AbstractAsyncContextManager[DaemonTools]]


@asynccontextmanager
async def open_reading(settings: FetchSettings) -> AsyncIterator[DaemonTools]:
    """The tools over the running gateway, or over a private one for this command's own life.

    Raises NoGatewayError, StaleGatewayError, AuditError, StoreError.
    """
    from fetchd.running.gateway_process import ensure_gateway

    async with (
        ensure_gateway(
            settings.loaded, settings.state_dir, no_start=settings.no_start, caller=settings.caller
        ) as gateway,
        open_audit_log(settings.state_dir, *ONE_SHOT_SERIES) as log,
        open_tools(
            gateway,
            log,
            settings.state_dir,
            settings.loaded.config.store_max_bytes,
            lambda: settings.loaded.config.search,
            tidy=False,
            extra_ca=settings.loaded.config.tls.extra_ca,
        ) as tools,
    ):
        yield tools


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--allow", "allow", multiple=True, metavar="PATTERN", help="A host that may be asked; may be repeated."
)
@click.option(
    "--extract",
    type=click.Choice([mode.value for mode in ExtractMode]),
    default=ExtractMode.TEXT.value,
    show_default=True,
    help="What of the page to return.",
)
@click.option("--link-text", is_flag=True, help="With links: each with its text.")
@click.option("--known-digest", metavar="DIGEST", help="That of an earlier read: say whether it still holds.")
@click.option("--json", "as_json", is_flag=True, help="Print the packet and its receipt, a line each page.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=8,
    show_default=True,
    help="Pages to read at the same time.",
)
@agent_option
@click.option("--no-start", is_flag=True, help="Do not start a private gateway when none runs.")
@state_dir_option
@config_option
@click.pass_context
def read(
    context: click.Context,
    urls: tuple[str, ...],
    allow: tuple[str, ...],
    extract: str,
    link_text: bool,
    known_digest: str | None,
    as_json: bool,
    jobs: int,
    agent_name: str | None,
    no_start: bool,
    state_dir: Path | None,
    config_path: Path | None,
) -> None:
    """Read pages whole through the gateway, each bound to the digest of its body, with a signed receipt.

    With - in place of URL, standard input has a URL on each line. What is printed of a page was written by
    strangers.
    """
    if "-" in urls and len(urls) > 1:
        raise BadInputError("- reads the URLs from standard input; it stands alone")
    settings = read_settings(config_path, state_dir, agent_name, None, no_start=no_start)
    inputs: dict[str, object] = {"extract": extract, "link_text": link_text, "known_digest": known_digest}
    if allow:
        inputs["allowlist"] = list(allow)
    opener: OpenTools = context.obj if context.obj is not None else open_reading
    printer = ReadPrinter(as_json=as_json, many=urls != urls[:1] or urls == ("-",))
    try:
        require_tool(PAGE_READ.name, settings.caller)
        asyncio.run(_run(opener, settings, urls, inputs, jobs, printer))
    except NoGatewayError as error:
        click.echo(str(error), err=True)
        context.exit(NO_GATEWAY)
    except (ToolNotAllowedError, StaleGatewayError, AuditError, StoreError) as error:
        raise BadInputError(str(error)) from None
    context.exit(printer.status)


async def _run(
    opener: OpenTools,
    settings: FetchSettings,
    urls: tuple[str, ...],
    inputs: dict[str, object],
    jobs: int,
    printer: "ReadPrinter",
) -> None:
    from_stdin = urls == ("-",)
    ceiling = settings.loaded.config.read_max_bytes
    with FetchDisplay(Console(stderr=True), None if from_stdin else len(urls)) as display:
        async with opener(settings) as tools:

            async def call(url: str) -> ReadOutcome:
                return await tools.page_reader.call(
                    {"url": url, **inputs}, settings.caller, ceiling, display.single
                )

            async def take(outcome: ReadOutcome) -> None:
                display.count(failed=outcome.failure is not None)
                with display.aside():
                    await asyncio.to_thread(printer.print, outcome)

            await run_in_order(read_urls() if from_stdin else iterate(list(urls)), call, take, jobs)


class ReadPrinter:
    """Prints reads one after the other; `status` is the worst so far. many: errors say which URL they belong to."""

    def __init__(self, *, as_json: bool, many: bool) -> None:
        self._as_json, self._many = as_json, many
        self._seen = self._shown = 0
        self.status = 0

    def print(self, outcome: ReadOutcome) -> None:
        """Print one."""
        self._seen += 1
        failure = outcome.failure
        if failure is not None:
            self.status = FAILED
        if self._as_json:
            pieces = (
                render_read(outcome)
                if failure is None
                else (dump_json(render_read_problem(failure, outcome.fetch_id)),)
            )
            click.echo(b"".join(pieces))
        elif failure is not None:
            where = f"URL {self._seen}: " if self._many else ""
            click.echo(f"Error: {where}{for_terminal(failure.text)}", err=True)
        else:
            self._print_page(outcome)

    def _print_page(self, outcome: ReadOutcome) -> None:
        packet: Any = outcome.packet
        result = packet["provider_operation"]["data"]["result"]
        rows = [
            ("url", result["final_url"]),
            ("status", str(result["status"])),
            ("digest", result["content_digest"]),
            ("bytes", f"{result['provenance']['bytes']:,}"),
            ("receipt", outcome.fetch_id),
            *(("redirect", f"{hop['status']} {hop['to']}") for hop in result["provenance"]["redirects"]),
            *([("unchanged", "since the digest that was given")] if "unchanged" in result else []),
        ]
        extracted = result["extracted"]
        if isinstance(extracted, JsonText):
            extracted = json.loads(extracted.data)
        shown = (
            extracted if isinstance(extracted, str) else json.dumps(extracted, ensure_ascii=False, indent=2)
        )
        text = "\n".join(f"{name:<9} {value}" for name, value in rows)
        if extracted is not None:
            text += f"\n\n{shown}"
        apart = "\n" if self._shown else ""
        self._shown += 1
        shown_text = for_terminal(text) if sys.stdout.isatty() else text
        click.echo((apart + shown_text).encode("utf-8", "replace"))
