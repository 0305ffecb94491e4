"""What a page does that nobody sees: errors on the console, calls to strangers, breaches of its policy."""

from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

POLICY = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""


class Eye:
    """Watches all pages of a context. `expects` is a text of an error that a test makes on purpose."""

    def __init__(self, context: BrowserContext) -> None:
        self.seen: list[str] = []
        self.expects = ""
        self.hosts: set[str] = set()
        context.add_init_script(POLICY)
        context.on("console", self._said)
        context.on("weberror", self._failed)
        context.on("request", self._asked)

    def _said(self, message: ConsoleMessage) -> None:
        is_ours = self.expects and self.expects in message.text
        if message.type in ("error", "warning") and not is_ours:
            self.seen.append(f"{message.type}: {message.text}")

    def _failed(self, error: WebError) -> None:
        self.seen.append(f"uncaught: {error.error}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob"):
            self.hosts.add(address.hostname or request.url)
        if self.hosts - {"127.0.0.1"}:
            self.seen.append(f"asked a stranger: {request.url}")
