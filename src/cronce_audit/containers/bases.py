"""What is known of a base image by its name: which shell `/bin/sh` is, and which cron `crond` would be."""

import re
from typing import Final, NamedTuple

from cronce_audit.containers.shell import Kind

_DEBIAN_TAGS: Final = re.compile(
    r"\b(slim|debian|ubuntu|buster|bullseye|bookworm|trixie|stretch|jessie|bionic|focal|jammy|noble)"
)
_BASH: Final = frozenset({
    "centos", "fedora", "rockylinux", "almalinux", "amazonlinux", "oraclelinux", "ubi7", "ubi8", "ubi9", "ubi-minimal",
    "opensuse", "leap", "tumbleweed", "archlinux"
})  # fmt: skip
_DEBIAN: Final = frozenset({
    "debian", "ubuntu", "python", "node", "ruby", "php", "golang", "openjdk", "eclipse-temurin", "perl", "rust",
    "buildpack-deps", "pypy", "elixir", "erlang", "composer", "wordpress", "nextcloud", "httpd", "nginx", "postgres"
})  # fmt: skip
"""Of Docker's own library, whose images stand on Debian or Ubuntu unless the tag says otherwise."""


class Base(NamedTuple):
    """An image's name, taken apart."""

    name: str
    """The last part of the path."""
    tag: str
    library: bool
    """One of Docker's own, not somebody else's of the same name."""


def base(image: str) -> Base:
    path, _, tag = image.partition("@")[0].rpartition(":")
    if not path or "/" in tag:
        path, tag = image.partition("@")[0], ""
    own = re.sub(r"^(docker\.io/|public\.ecr\.aws/docker/)?(library/)?", "", path.lower())
    return Base(own.rpartition("/")[2], tag.lower(), "/" not in own)


def sh_of(image: str) -> Kind | None:
    """The shell that `/bin/sh` is; None where the name does not tell."""
    if "$" in image:
        return None
    name, tag, library = base(image)
    if "alpine" in tag or name in ("alpine", "busybox") or name.endswith("-alpine"):
        return "ash"
    if name in _BASH or re.search(r"\b(ubi\d|centos|fedora|rocky|amazonlinux|ol\d)", tag):
        return "bash"
    if _DEBIAN_TAGS.search(tag) or (library and name in _DEBIAN and name != "composer"):
        return "dash"
    return None
