"""What the words of crontabs commonly are: users, and commands that can be no users."""

import re
from typing import Final

USERS: Final = frozenset({
    "root", "www-data", "nobody", "daemon", "mail", "backup", "news", "list", "postgres", "mysql", "munin", "apache",
    "nginx", "http", "logcheck", "git", "redis", "ubuntu", "ec2-user", "vagrant", "jenkins", "smmsp", "uucp", "admin",
    "app", "deploy", "deployer", "django", "bin", "sys", "operator"
})  # fmt: skip
COMMANDS: Final = frozenset({
    "[", "[[", "test", "if", "for", "while", "cd", "echo", "printf", "export", "sh", "bash", "ash", "zsh", "env",
    "sudo", "su", "nice", "ionice", "flock", "timeout", "sleep", "php", "php8", "python", "python2", "python3", "perl",
    "ruby", "node", "npm", "npx", "yarn", "java", "bundle", "rake", "rails", "curl", "wget", "find", "rm", "cp", "mv",
    "touch", "cat", "date", "rsync", "tar", "docker", "docker-compose", "podman", "kubectl", "systemctl", "service",
    "run-parts", "run-one", "cronce", "certbot", "logrotate", "mysqldump", "pg_dump", "psql", "mysql", "aws", "gsutil",
    "make", "poetry", "uv", "pipenv", "source", "exec", "nohup", "true", "command", "drush", "wp", "artisan", "git",
    "set", "chronic", "mkdir", "rmdir", "chmod", "chown", "ln", "ls", "grep", "sed", "awk", "kill", "pkill", "logger",
    "rclone", "gzip"
})  # fmt: skip
_NAME: Final = re.compile(r"[a-z_][a-z0-9_-]*")
_NO_USER: Final = re.compile(r"[/=\"'`;|&<>()\[\]{}~]|\$\w|\.(sh|py|php|pl|rb|js)$")
_FIELD: Final = re.compile(r"\*(/\d+)?|\?|\d[\d,*/-]*[,*/-][\d,*/-]*")


def is_command(word: str) -> bool:
    """Whether a word is a command, and surely no user. Directories have `john.doe`, `DOMAIN\\user` and `app$`."""
    return word in COMMANDS or _NO_USER.search(word) is not None


def is_field(word: str) -> bool:
    """Whether a word is one more field of a schedule: nobody's command is `*` or `*/5`."""
    return _FIELD.fullmatch(word) is not None


def has_users(rests: list[str]) -> bool:
    """Whether what stands behind the schedules of a crontab begins with users: judged by all its lines together."""
    pairs = [rest.split(maxsplit=2) for rest in rests]
    firsts = {words[0] for words in pairs}
    if any(len(words) < 2 or words[0] in COMMANDS or not _NAME.fullmatch(words[0]) for words in pairs):
        return False
    return firsts <= USERS or all(words[1] in COMMANDS or words[1].startswith(("/", "./", "[", "~")) for words in pairs)
