"""Hook dispatch in place of mitmproxy's `AddonManager`: fail closed, and cheap.

Stock: every hook is a task, every addon is searched for every hook, an exception is logged and the traffic passes.
Here: a table per hook name, sync hooks run inline in the layer's own event, a task only where a hook really waits,
and an exception applies the hook's remedy (`fail_closed`). Tests: tests/proxy_addons/engine/test_fail_closed.py.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from mitmproxy import addonmanager, hooks
from mitmproxy.master import Master

from proxy_addons.engine.fail_closed import BEFORE_SERVICE, apply_remedy, session_of
from proxy_addons.engine.hops import Recorder, Sessions

logger = logging.getLogger(__name__)

HookFunction = Callable[[Any], Awaitable[None] | None]


class Dispatcher(addonmanager.AddonManager):
    """The addon chain of one worker, in its literal order."""

    def __init__(self, master: Master, sessions: Sessions, recorder: Recorder) -> None:
        super().__init__(master)
        self._sessions = sessions
        self._recorder = recorder
        self._table: dict[str, Sequence[HookFunction]] = {}

    def add(self, *addons: object) -> None:
        """Add to the end of the chain; an addon that cannot load is fatal."""
        super().add(*addons)
        self._table.clear()

    def functions(self, name: str) -> Sequence[HookFunction]:
        """The functions that serve a hook, in chain order."""
        found = self._table.get(name)
        if found is None:
            members = (getattr(addon, name, None) for addon in addonmanager.traverse(self.chain))
            found = self._table[name] = [cast(HookFunction, member) for member in members if callable(member)]
        return found

    def run(self, hook: hooks.Hook) -> Awaitable[None] | None:
        """Run a hook's functions inline; an awaitable for the rest is returned as soon as one of them waits."""
        name, (data,) = hook.name, hook.args()
        if name in BEFORE_SERVICE and self._is_poisoned(data):
            apply_remedy(name, data, self._sessions)
            return None
        functions = self.functions(name)
        for position, function in enumerate(functions):
            try:
                waiting = function(data)
            except Exception as error:  # noqa: BLE001 (law 5)
                self._fail(name, data, error)
                return None
            if waiting is not None:
                return self._finish(name, data, waiting, functions[position + 1 :])
        return None

    async def _finish(
        self, name: str, data: Any, waiting: Awaitable[None], rest: Sequence[HookFunction]
    ) -> None:
        try:
            await waiting
            for function in rest:
                more = function(data)
                if more is not None:
                    await more
        except Exception as error:  # noqa: BLE001 (law 5)
            self._fail(name, data, error)

    async def handle_lifecycle(self, event: hooks.Hook) -> None:
        """The entry that mitmproxy's own code uses."""
        waiting = self.run(event)
        if waiting is not None:
            await waiting

    async def trigger_event(self, event: hooks.Hook) -> None:
        """Process events (running, done): a failure is fatal."""
        for function in self.functions(event.name):
            result: Any = cast(Callable[..., Any], function)(*event.args())
            if inspect.isawaitable(result):
                await result

    def trigger(self, event: hooks.Hook) -> None:
        """Process events from sync code (configure): a failure is fatal."""
        for addon in self.chain:
            self.invoke_addon_sync(addon, event)

    def _is_poisoned(self, data: Any) -> bool:
        session = session_of(data, self._sessions)
        return session is None or bool(session.client.error)

    def _fail(self, name: str, data: Any, error: Exception) -> None:
        """Refuse first, then tell: telling may fail too."""
        session = session_of(data, self._sessions)
        apply_remedy(name, data, self._sessions)
        logger.error("hook %s failed; refused", name, exc_info=error)
        try:
            self._recorder.event(session, "internal", f"hook {name} failed: {type(error).__name__}")
        except Exception:  # law 5: the refusal above stands whatever the log says
            logger.exception("the failure of hook %s could not be audited", name)
