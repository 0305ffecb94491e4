"""How many statements a PostgreSQL was sent, by its own log: nobody's wrapper can forget to count one."""

import re
from typing import Final

from tests.servers.postgres import Postgres

LOGGING: Final = {"log_statement": "all"}
SAID: Final = re.compile(rb"LOG:  (?:statement|execute [^:]*): (?!BEGIN|COMMIT)")


class Statements:
    """Counts on from where the log ends now."""

    def __init__(self, server: Postgres) -> None:
        self._log = server.log
        self._at = self._log.stat().st_size
        self._count = 0

    def count(self) -> int:
        with self._log.open("rb") as log:
            log.seek(self._at)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._at += len(whole)
        self._count += len(SAID.findall(whole))
        return self._count
