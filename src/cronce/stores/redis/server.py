"""Redis servers: connections, finding the master, and what errors mean.

Nothing here retries: a command is sent once. The connection is hiredis over a socket of our own: redis-py would retry
by itself, and takes 170 ms of CPU to import where hiredis takes 3. A run under cron starts in less than half of that.
"""

import re
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from struct import pack
from typing import TYPE_CHECKING, Any, Final, cast

from cronce.clock import SystemClock
from cronce.errors import BadInput, StoreCorrupt, StoreError, StoreFull, StoreNewer, StoreReadOnly, StoreUnavailable
from cronce.errors import StoreUnusable as Unusable
from cronce.stores.base import closed_on_error
from cronce.stores.redis.url import Address, Login, RedisAddress, Tls
from cronce.value import NamedTuple

if TYPE_CHECKING:
    from cronce.stores.news import SocketListener

try:
    import hiredis
except ImportError:
    raise BadInput("redis:// needs hiredis: pip install 'cronce[redis]'") from None

Command = tuple[str | bytes | int, ...]
Reply = Any
"""As hiredis returns it: bytes, a number, None, a list of them, or a `ReplyError`."""

ReplyError: Final = hiredis.ReplyError
NO_LEASE_END: Final = 1 << 62
FLUSHING: Final = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
_packed: Final[Callable[[tuple[Any, ...]], bytes]] = hiredis.pack_command  # its stub knows tuples of one word only


# --- who it is ------------------------------------------------------------------------------------------------------


class RedisServer(NamedTuple):
    """A server's description of itself; `config` is empty where this user may not read it."""

    info: Mapping[str, str]
    config: Mapping[str, str]
    publishes: bool = False  # this user may publish news

    @property
    def identity(self) -> str:
        """Drawn by the server when it starts."""
        return self.info.get("run_id", "")

    @property
    def master(self) -> bool:
        return self.info.get("role") == "master"

    @property
    def replication(self) -> str:
        """What its replicas follow."""
        return self.info.get("master_replid", "")

    @property
    def continued(self) -> str:
        """The replication that its own continues: it was a replica of that one, or, a Valkey, loaded its dump."""
        replication = self.info.get("master_replid2", "")
        return replication if replication.strip("0") else ""

    @property
    def started(self) -> int:
        """The second, by its own clock, by which its process had started; if it is not told, far ahead."""
        now = int(self.info.get("server_time_usec", NO_LEASE_END)) // 1_000_000
        return now - int(self.info.get("uptime_in_seconds", "0")) + 1

    @property
    def replicas(self) -> int:
        return int(self.info.get("connected_slaves", "0"))

    @property
    def flushes(self) -> bool:
        """Every write is on its disk before it is answered. Settings that cannot be read count as not."""
        return FLUSHING.items() <= self.config.items()


# --- a connection ---------------------------------------------------------------------------------------------------


class RedisConnection:
    """One connection. Commands sent together are one round trip, and are answered in their order."""

    def __init__(self, address: Address, timeout: float, tls: Tls | None = None) -> None:
        self.address: Final = address
        self._timeout = timeout
        self._boot = SystemClock().boot
        self._reader = hiredis.Reader()
        self.server = RedisServer({}, {})
        self._socket = self._connected(tls)

    def ask(self, *commands: Command) -> list[Reply]:
        """The reply to each command; one that the server refused is a `ReplyError` among them."""
        sent = False
        try:
            self._socket.sendall(b"".join(map(_packed, commands)))
            sent = True
            return [self._reply() for _ in commands]
        except (TimeoutError, BlockingIOError):
            raise self._silent(f"did not answer within {self._timeout:g} s", landed=sent) from None
        except (OSError, hiredis.ProtocolError) as error:
            raise self._silent(f"broke off: {error}", landed=sent) from error

    def _reply(self) -> Reply:
        deadline = 0.0
        reply = self._reader.gets()
        while reply is False:
            if not (received := self._socket.recv(1 << 16)):
                raise ConnectionResetError("the server closed the connection")
            self._reader.feed(received)
            reply = self._reader.gets()
            if reply is False:  # the socket's timeout is only for each part
                deadline = deadline or self._boot() + self._timeout
                if self._boot() > deadline:
                    raise TimeoutError
        return reply

    def subscribe(self, channel: str) -> Reply:
        """From now on no command is sent, and the server sends messages."""
        (reply,) = self.ask(("SUBSCRIBE", channel))
        self._socket.settimeout(0)
        return reply

    def heard(self) -> bool:
        from cronce.stores.news import received  # noqa: PLC0415  not under cron

        if self._arrived():  # together with an answer
            return True
        try:
            self._reader.feed(received(self._socket) or b"")
        except OSError as error:
            raise self._silent(f"broke off: {error}", landed=False) from error
        return self._arrived()

    def _arrived(self) -> bool:
        messages = 0
        while self._reader.gets() is not False:
            messages += 1
        return messages > 0

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _silent(self, what: str, *, landed: bool) -> StoreUnavailable:
        more = "; a write may have succeeded" if landed else ""
        return StoreUnavailable(f"redis at {shown(self.address)} {what}{more}")

    def _connected(self, tls: Tls | None) -> socket.socket:
        try:
            plain = _plain_socket(self.address, self._timeout)
            with closed_on_error(plain):
                return _secured(plain, self.address[0], tls) if tls else _timed(plain, self._timeout)
        except OSError as error:
            raise StoreUnavailable(f"redis at {shown(self.address)} cannot be reached: {error}") from error


def _plain_socket(address: Address, timeout: float) -> socket.socket:
    plain = socket.socket(socket.AF_UNIX) if isinstance(address, str) else socket.create_connection(address, timeout)
    with closed_on_error(plain):
        if isinstance(address, str):
            plain.settimeout(timeout)
            plain.connect(address)
        else:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain


def _timed(plain: socket.socket, seconds: float) -> socket.socket:
    """Let the system keep the timeout: with Python's own, each call makes one more system call."""
    whole = int(seconds)
    plain.settimeout(None)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        plain.setsockopt(socket.SOL_SOCKET, option, pack("ll", whole, int((seconds - whole) * 1_000_000)))
    return plain


def _secured(plain: socket.socket, host: str, tls: Tls) -> socket.socket:
    import ssl  # noqa: PLC0415  slow to import, and few need it

    context = ssl.create_default_context(cafile=tls.ca or None)
    if not tls.verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if tls.cert:
        context.load_cert_chain(tls.cert, tls.key or None)
    return context.wrap_socket(plain, server_hostname=host)


def shown(address: Address) -> str:
    return address if isinstance(address, str) else f"{address[0]}:{address[1]}"


# --- logging in -----------------------------------------------------------------------------------------------------

ABOUT: Final[Sequence[Command]] = (("INFO", "server"), ("INFO", "replication"), ("CONFIG", "GET", "*append*"))


def connect(place: RedisAddress) -> RedisConnection:
    """A connection to the master, logged in, with the description of its server."""
    connection = RedisConnection(_find_master(place), place.timeout, place.tls)
    with closed_on_error(connection):
        connection.server = _log_in(connection, place)
    return connection


def listen(place: RedisAddress) -> "SocketListener":
    """SUBSCRIBE, on a connection of its own; `script.lua` publishes. A channel is the whole server's, or the whole
    Cluster's: a store of the same namespace in another of its databases has the same news."""
    from cronce.stores.news import SocketListener  # noqa: PLC0415  not under cron

    connection = connect(place)
    with closed_on_error(connection):
        answered([connection.subscribe(f"{tag(place.namespace)}:news")], place)
        return SocketListener(connection)


def _log_in(connection: RedisConnection, place: RedisAddress) -> RedisServer:
    login = _login(place.login)
    if place.db:
        login.append(("SELECT", place.db))
    probe = ("PUBLISH", f"{tag(place.namespace)}:probe", "")  # where nobody listens
    *answers, about, replication, config, published = connection.ask(*login, *ABOUT, probe)
    answered((*answers, about, replication), place)
    info, publishes = {**read_info(about), **read_info(replication)}, not isinstance(published, ReplyError)
    server = RedisServer(info, read_config(config), publishes)
    if not server.master:
        raise not_the_master(place, connection.address)
    return server


def _login(login: Login) -> list[Command]:
    if not login.password:
        return []
    return [("AUTH", *([login.username] if login.username else []), login.password)]


def read_info(reply: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def read_config(reply: Reply) -> dict[str, str]:
    if isinstance(reply, ReplyError):
        return {}
    words = [word.decode(errors="replace") for word in reply]
    return dict(zip(words[::2], words[1::2], strict=True))


# --- where the master is --------------------------------------------------------------------------------------------


def _find_master(place: RedisAddress) -> Address:
    if not place.fails_over:
        return place.addresses[0]
    patience = place.timeout / (len(place.addresses) + 1)  # all of them together take no longer than one call
    troubles = []
    for address in place.addresses:
        try:
            return (_ask_cluster if place.cluster else _ask_sentinel)(place, address, patience)
        except StoreUnavailable as error:
            troubles.append(str(error))
    raise StoreUnavailable(f"{place.url}: no master is known: {'; '.join(troubles)}")


def _ask_sentinel(place: RedisAddress, address: Address, patience: float) -> Address:
    (found,) = _asked(
        place, address, patience, place.sentinel_login, ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", place.sentinel)
    )
    if found is None:
        raise Unusable(f"{place.url}: the Sentinel at {shown(address)} knows no master called {place.sentinel!r}")
    host, port = found
    return host.decode(), int(port)


def _ask_cluster(place: RedisAddress, address: Address, patience: float) -> Address:
    where = ("CLUSTER", "KEYSLOT", tag(place.namespace))
    slot, slots = _asked(place, address, patience, place.login, where, ("CLUSTER", "SLOTS"))
    for first, last, master, *_replicas in slots:
        if first <= slot <= last:
            host = master[0].decode() if master[0] else cast(tuple[str, int], address)[0]
            return host, int(master[1])
    raise StoreUnavailable(f"{place.url}: no node of the Cluster serves slot {slot}, where this namespace is")


def other_masters(connection: RedisConnection, place: RedisAddress) -> str:
    """Of a Cluster: the other masters that this node is connected to and that answer, each as `script.lua` writes it.
    One that is not connected may be a master that lost its slots to its own replica."""
    (nodes,) = connection.ask(("CLUSTER", "NODES"))
    if isinstance(nodes, ReplyError):
        return ""
    rows = [row.split() for row in nodes.decode(errors="replace").splitlines()]
    found = [row[1] for row in rows if row[2] == "master" and row[7] == "connected"]  # nor `myself`, nor one that fails
    lines = ""
    for node in found:
        host, _, port = node.partition("@")[0].rpartition(":")
        with suppress(StoreError, ValueError):
            patience = place.timeout / (len(found) + 1)
            about, replication = _asked(place, (host, int(port)), patience, place.login, *ABOUT[:2])
            server = RedisServer({**read_info(about), **read_info(replication)}, {})
            lines += f"{server.identity} {server.replication}\n" if server.master else ""
    return f"\n{lines}"


def _asked(place: RedisAddress, address: Address, patience: float, login: Login, *commands: Command) -> Sequence[Reply]:
    connection = RedisConnection(address, patience, place.tls)
    try:
        replies = connection.ask(*_login(login), *commands)
    finally:
        connection.close()
    return answered(replies, place)[-len(commands) :]


def tag(namespace: str) -> str:
    """What all keys of a namespace begin with: in a Cluster the braces keep them on one node."""
    return f"{{cronce:{namespace}}}"


# --- what errors mean -----------------------------------------------------------------------------------------------

_ERROR_CODE: Final = re.compile(
    r"\b(NOAUTH|WRONGPASS|NOPERM|READONLY|OOM|LOADING|BUSY|MISCONF|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|MOVED|ASK|MASTERDOWN"
    r"|UNKILLABLE|WRONGTYPE|CRONCENEWER|CRONCEBEHIND)\b"
)

_MEANS: Final[Mapping[str, tuple[type[StoreError], str]]] = {
    "NOAUTH": (Unusable, "it needs a password: redis://user:password@host"),
    "WRONGPASS": (Unusable, "it does not accept this user and password; check both in the URL"),
    "NOPERM": (Unusable, "this user may not do that; it needs +@read +@write +@scripting +@connection +info +time"),
    "OOM": (StoreFull, "it has reached its maxmemory, and nothing was written; raise maxmemory"),
    "LOADING": (StoreUnavailable, "it is still loading its data; nothing was done, and cronce tries again"),
    "BUSY": (StoreUnavailable, "another client's script keeps it busy; nothing was done. Run `SCRIPT KILL`"),
    "UNKILLABLE": (StoreUnavailable, "another client's script keeps it busy and has written; nothing was done"),
    "MISCONF": (Unusable, "it cannot save to its disk, and refuses to write; check its log and make room"),
    "NOREPLICAS": (StoreUnavailable, "it has fewer replicas than its min-replicas-to-write; nothing was written"),
    "CLUSTERDOWN": (StoreUnavailable, "the Cluster is down, or this part of it; nothing was written"),
    "TRYAGAIN": (StoreUnavailable, "the slot of this namespace is being moved to another node; nothing was written"),
    "ASK": (StoreUnavailable, "the slot of this namespace is being moved to another node; nothing was written"),
    "MOVED": (StoreUnavailable, "the slot of this namespace has another master now; nothing was written"),
    "MASTERDOWN": (StoreUnavailable, "this is a replica that has lost its master; nothing was written"),
    "WRONGTYPE": (StoreCorrupt, "its keys hold something else than a store; use another ?namespace="),
    "CRONCENEWER": (StoreNewer, "upgrade this cronce"),
    "CRONCEBEHIND": (StoreUnavailable, "its clock is behind its own last write; set the clock"),
}  # fmt: skip


def answered(replies: Sequence[Reply], place: RedisAddress) -> Sequence[Reply]:
    """The replies; a refusal among them is raised."""
    for reply in replies:
        if isinstance(reply, ReplyError):
            raise explained(reply, place)
    return replies


def explained(error: Exception, place: RedisAddress) -> StoreError:
    """The server's refusal, in our words. It refused: nothing was written."""
    found = _ERROR_CODE.search(str(error))
    code = found.group(1) if found else ""
    if "ACL failure" in str(error):  # so newer servers call it within a script
        code = "NOPERM"
    if code == "READONLY":
        return not_the_master(place, None)
    if "max number of clients" in str(error):
        return StoreUnavailable(f"{place.url}: all connections that the server allows are taken: {error}")
    if "killed by user" in str(error):  # the server ends no script that has written
        return StoreUnavailable(f"{place.url}: the script was killed; nothing was written ({error})")
    if code in ("MOVED", "ASK") and not place.cluster:
        return Unusable(f"{place.url}: this is a node of a Cluster; add cluster=true to the URL")
    kind, means = _MEANS.get(code, (Unusable, "the server refused"))
    return kind(f"{place.url}: {means} ({error})")


def not_the_master(place: RedisAddress, address: Address | None) -> StoreError:
    where = f" at {shown(address)}" if address else ""
    if place.fails_over:
        return StoreUnavailable(f"{place.url}: the server{where} is no longer the master; nothing was written")
    return StoreReadOnly(
        f"{place.url}: the server{where} is a replica, which cannot be written and may be behind; name the master, or"
        " its Sentinels: redis://host1,host2,host3/?sentinel=NAME"
    )
