"""What the command line of `fetchd up` says in place of the file; it stays in force when the file is read again."""

from dataclasses import dataclass, replace
from typing import Any, Final

from proxy_addons.policy.config import parse_config
from proxy_addons.policy.config_document import render_document

from .settings import LoadedConfig

SOURCE: Final = "command line"


@dataclass(frozen=True, slots=True)
class Overrides:
    """Addresses of the first listener, the tools and the operator; the number of workers. None: as in the file."""

    gateway: str | None = None
    tools: str | None = None
    operator: str | None = None
    workers: int | None = None

    def apply(self, loaded: LoadedConfig) -> LoadedConfig:
        """The configuration with these in place; raises ConfigError."""
        if self == Overrides():
            return loaded
        document: dict[str, Any] = dict(render_document(loaded.config))
        if self.gateway is not None:
            first, *others = document["gateway"]["listeners"]
            document["gateway"]["listeners"] = [{**first, "address": self.gateway}, *others]
        if self.workers is not None:
            document["gateway"]["workers"] = self.workers
        for table, address in (("daemon", self.tools), ("operator", self.operator)):
            if address is not None:
                document[table]["listen"] = address
        return replace(loaded, config=parse_config(document, source=SOURCE))
