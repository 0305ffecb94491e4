"""What a command of a crontab does, as far as it shows: which programs, under which lock, for how long."""

import posixpath
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from cronce_audit.containers.shell import given
from cronce_audit.crontab.read import CronLine
from cronce_audit.model import Source, reader
from cronce_audit.scripts import commands_in

Work = Literal["locked", "short", "long", "unseen"]

_LOCK_PROGRAMS: Final = frozenset({
    "flock", "lockrun", "run-one", "run-this-one", "setlock", "solo", "with-lock-ex", "lckdo", "lockf", "shlock",
    "lockfile", "dotlockfile", "lockfile-create", "cronlock", "cronce", "chpst", "pgrep", "pidof", "withlock", "zlock",
    "systemctl", "systemd-run", "service", "invoke-rc.d", "supervisorctl", "initctl", "rc-service"
})  # fmt: skip
"""They run one at a time, or check for a running one; a running unit is not started again."""
_LOCK_THEMSELVES: Final = re.compile(
    r"schedule[:/]run|cron:run|cron\.php|poller\.php|wp-cron|"
    r"\b(certbot|anacron|munin-cron|logrotate|rsnapshot|drush|freshclam|puppet|chef-client|apt(-get)?|yum|dnf|borg|"
    r"borgmatic|restic|fetchmail|getmail|offlineimap|mbsync|sa1|debian-sa1|run-parts|git|salt-call|gitlab-\w+)\b"
)
_SHORT_PROGRAMS: Final = frozenset({
    "touch", "echo", "date", "printf", "true", ":", "test", "find", "rm", "chmod", "chown", "curl", "wget", "logger",
    "kill", "pkill", "killall", "sync", "ntpdate", "ln", "cp", "mv", "cat", "sendmail", "mail", "mailx", "df",
    "uptime", "ping", "sed", "grep", "awk", "cd", "export", "mkdir", "head", "tail", "tee", "ts", "command", "which",
    "sleep", "ps", "wc", "sort", "hostname", "free", "nc", "source", ".", "set", "id", "exit", "xargs", "gzip"
})  # fmt: skip
_LONG_PROGRAMS: Final = frozenset({
    "rsync", "mysqldump", "mariadb-dump", "pg_dump", "pg_dumpall", "mongodump", "tar", "rclone", "s3cmd", "gsutil",
    "duplicity", "scp", "lftp", "unison", "ffmpeg"
})  # fmt: skip
_INTERPRETERS: Final = re.compile(r"(python[\d.]*|pypy3?|sh|bash|ash|dash|zsh)")
_OUTPUT: Final = re.compile(
    r"(\s*([12&]?>>\s*[^\s&]\S*|[12&]?>\s*/dev/null|2>\s*[^\s&]\S*|[12]>&[12]|<\s*/dev/null))+\s*$"
)
"""Output that is discarded or appended. A file written by `>` may be the purpose of the job."""
_SAY: Final = frozenset({"echo", "printf", "date", "cat", "df", "free", "uptime", "ps", "w", "who"})
"""Programs that only print."""
_AT_ONCE: Final = re.compile(r"\bflock(\s+-\S+(\s+[\d.]+)?)*?\s+(-[a-z]*n[a-z]*|--nonblock|--nb)\s")


def job_of(command: str) -> str:
    """The command without redirections of its output."""
    job = " ".join(_OUTPUT.sub("", command).split())
    return " ".join(command.split()) if job.partition(" ")[0] in _SAY | {""} and ">>" in command else job


def leaves_if_locked(command: str) -> bool:
    """`flock -n`: a run that finds the lock taken ends. Without -n it waits, and then runs too."""
    return _AT_ONCE.search(command) is not None


def shown(command: str) -> str:
    """The program, and the next word if it is a name: other words may be secret."""
    for words in _programs(command):
        if words and PurePosixPath(words[0]).name not in ("cd", "test", "command", "sleep", "export"):
            more = [word for word in words[1:2] if re.fullmatch(r"[A-Za-z0-9_./-]*[A-Za-z][A-Za-z0-9_./-]*", word)]
            return " ".join([words[0], *(word for word in more if not word.startswith("-"))])[:60]
    return command.split(maxsplit=1)[0][:60]


def work(line: CronLine, minutes: int) -> Work:
    """Whether runs of a line can overlap: it is locked, short, long, or that is not seen."""
    text = _before_percent(line.command)
    if line.guard or _LOCK_THEMSELVES.search(text):
        return "locked"
    found = list(_programs(text))
    names = [_common_name(words[0]) for words in found if words]
    if any(name in _LOCK_PROGRAMS for name in names) or any(_is_bounded(words, minutes) for words in found):
        return "locked"
    if "rmdir" in names and any(words[0] == "mkdir" and "-p" not in words for words in found if words):
        return "locked"
    if any(name in _LONG_PROGRAMS for name in names):
        return "long"
    return "short" if all(name in _SHORT_PROGRAMS for name in names) else "unseen"


def is_short(script: str) -> bool:
    """Whether a script has only short commands, and no loop."""
    loops = re.search(r"\b(while|until|for)\b", script)
    return not loops and all(_common_name(words[0]) in _SHORT_PROGRAMS for words in _programs(script) if words)


def scripts_of(command: str) -> Iterator[str]:
    """The paths of the scripts that a command runs, directly or by an interpreter."""
    folder = ""
    for words in _programs(_before_percent(command)):
        path = words[0] if words else ""
        if path == "cd" and len(words) > 1:
            folder = posixpath.join(folder, words[1])
        if _INTERPRETERS.fullmatch(PurePosixPath(path).name):
            path = next((word for word in words[1:] if not word.startswith("-")), "")
        if path.endswith((".sh", ".py", ".bash")):
            yield posixpath.normpath(posixpath.join(folder, path))


def _common_name(word: str) -> str:
    """The name of a program in a common folder; else the whole path: `/opt/sync` is not `sync`."""
    path = PurePosixPath(word)
    return path.name if path.parent.name in ("", "bin", "sbin") else word


def _programs(command: str) -> Iterator[tuple[str, ...]]:
    """The simple commands in it, without wrappers; for `sh -c "…"` those of the text."""
    for simple in commands_in(command):
        told = given(simple.bare)
        yield from (one.bare for one in commands_in(told[1])) if told else [simple.bare]


def _is_bounded(words: tuple[str, ...], minutes: int) -> bool:
    """`timeout 50`: it ends before the next run starts."""
    if not words or PurePosixPath(words[0]).name != "timeout":
        return False
    spans = [re.fullmatch(r"([\d.]+)([smhd]?)", word) for word in words[1:]]
    return any(
        float(span[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[span[2]] <= 60 * minutes
        for span in spans
        if span and span[1].count(".") < 2 and span[1] != "."
    )


def _before_percent(command: str) -> str:
    return re.split(r"(?<!\\)%", command, maxsplit=1)[0].replace("\\%", "%")


_LOCK_WORDS: Final = re.compile(
    r"(?i)lock|pid_?file|\.pid|pgrep|pidof|mutex|singleton|single_instance|setnx|cronce|already"
)
_ELSEWHERE: Final = re.compile(r"(?m)^\s*(\.|source)\s|\.(sh|bash|py|php|pl|rb|js)\b|\spython\S*\s+-m\s")
_IMPORTS: Final = re.compile(r"(?m)^\s*(?:from\s+(\S+)\s+import\s|import\s+([\w., ]+))")
_LITTLE: Final = 2000
"""Characters. A longer script is not short work."""

Does = Literal["locks", "short", "works", "unseen"]
"""It mentions a lock (of any quality); it has only short commands; it may take long; or other files do the work."""


class JobScript(NamedTuple):
    """A script of the tree, and what it does."""

    path: str
    does: Does


def wants(path: PurePosixPath) -> bool:
    return path.suffix in (".sh", ".bash", ".py")


@reader("job script", wants)
def read(source: Source) -> Iterator[JobScript]:
    if source.suffix != ".py" or "__main__" in source.text or source.text.startswith("#!"):
        yield JobScript(source.path, _does(source.text, is_python=source.suffix == ".py"))


def _does(text: str, *, is_python: bool) -> Does:
    if _LOCK_WORDS.search(text):
        return "locks"
    if is_python:
        return "works" if _imported(text) <= sys.stdlib_module_names else "unseen"
    said = re.sub(r"(?m)^\s*#.*", "", text)
    if re.search(r"\bmkdir\s(?!-p)", said) and re.search(r"\brmdir\s", said):
        return "locks"
    if _ELSEWHERE.search(said):
        return "unseen"
    return "short" if len(said) < _LITTLE and is_short(said) else "works"


def _imported(text: str) -> set[str]:
    """The packages that it imports; "" is its own."""
    several = (name for one, many in _IMPORTS.findall(text) for name in (one or many).split(","))
    return {name.strip().partition(" ")[0].partition(".")[0] for name in several}


def meant(path: str, scripts: Sequence[JobScript]) -> Sequence[JobScript]:
    """Those of these scripts, all of one name, that a host's path means: the only one, or that in such a folder."""
    folder = PurePosixPath(path).parent.name
    same = [script for script in scripts if PurePosixPath(script.path).parent.name == folder]
    return scripts if len(scripts) == 1 else same
