"""The operator's listener of an installation: the parts behind its pages, made and closed with it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.routing import BaseRoute

from proxy_addons.policy.rulebook import CurrentRules

from .audit_index.keeper import INDEX_FILE, keeping_index
from .audit_index.reading import SqliteAuditIndex
from .faces.audit_page.parts import PageParts
from .faces.audit_page.routes import make_pages
from .faces.audit_page.verifying import Verifier, verify_log
from .faces.operator_access.access import Access
from .operator_token import read_digest
from .store import PageStore


def make_access(rules: CurrentRules, state_dir: Path, port: int) -> Access:
    """Who may look: tokens of the configuration and of the state directory, as they are at each request."""
    return Access(partial(_load_tokens, rules, state_dir), port=port, secure=rules.now.config.operator.tls)


@asynccontextmanager
async def open_pages(
    access: Access, control_secret: str, rules: CurrentRules, state_dir: Path, store: PageStore
) -> AsyncIterator[list[BaseRoute]]:
    """The pages over the log of `state_dir`, whose index is kept meanwhile."""
    async with AsyncExitStack() as stack:
        keeper = await stack.enter_async_context(keeping_index(state_dir))
        index = SqliteAuditIndex(state_dir / INDEX_FILE)
        stack.callback(index.close)
        verifier = Verifier(partial(verify_log, state_dir))
        stack.push_async_callback(verifier.close)

        parts = PageParts(
            index=index,
            log=state_dir / "audit",
            verifier=verifier,
            find_read=store.find_read,
            config=lambda: rules.now.config,
            index_problem=lambda: keeper.problem,
        )
        yield make_pages(access, control_secret, parts)


def _load_tokens(rules: CurrentRules, state_dir: Path) -> frozenset[str]:
    """Digests of the tokens that sign in now. Raises SecretError, OSError."""
    found = (rules.now.config.operator.token_sha256, read_digest(state_dir))
    return frozenset(one for one in found if one is not None)
