"""The text of crontabs: nothing that an edit is not about is touched, and a guarded line does what it did."""

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cronce.errors import BadInput
from cronce.integrations.crontab import (
    MAX_LINE_BYTES,
    CronHost,
    above,
    blocks,
    check,
    cron_of,
    dedupe,
    entries,
    install,
    job_name,
    remove,
    wrap,
    zone_of,
)
from cronce.schedule import Cron
from tests.house.needs import tool

HOST = CronHost("/opt/cronce", "UTC", "ada")
MINE = "# mine\r\nMAILTO=ops@example.org\n\n*/5 * * * * /bin/x 100\\% \t\n@reboot y\xe9\udcff\n"


# --- reading ----------------------------------------------------------------------------------------------------------


def test_each_line_that_fires_is_found_with_what_is_in_force_there() -> None:
    text = 'A=1\n*/5 0 1 * 1-5  /bin/x  y\n "B" = "two "\n# * * * * * no\n@daily z\n'
    first, second = entries(text)
    assert (first.number, first.schedule, first.head, first.command) == (
        2,
        "*/5 0 1 * 1-5",
        "*/5 0 1 * 1-5  ",
        "/bin/x  y",
    )
    assert (first.settings, second.settings) == ({"A": "1"}, {"A": "1", "B": "two "})
    assert (second.schedule, second.command) == ("@daily", "z")


def test_in_the_systems_format_a_user_stands_before_the_command() -> None:
    (entry,) = entries("@hourly\twww-data  php artisan\n", system=True)
    assert (entry.user, entry.command, entry.head) == ("www-data", "php artisan", "@hourly\twww-data  ")


@pytest.mark.parametrize(
    ("command", "guard"),
    [
        ("/opt/bin/cronce exec x --schedule @daily -- y", "cronce"),
        ("cd / && python3 -m cronce exec x --slot y -- z", "cronce"),
        ("'/my path/cronce' exec x", "cronce"),
        ("/usr/bin/flock -n /tmp/lock y", "flock"),
        ("/opt/cronce-executor x", ""),
        ("echo cronce executes", ""),
        ("/opt/unflock x", ""),
    ],
)
def test_what_is_guarded_already_is_seen(command: str, guard: str) -> None:
    (entry,) = entries(f"* * * * * {command}\n")
    assert entry.guard == guard


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("* * * * x", "five fields and a command"),
        ("61 * * * * x", "61 is not in 0–59"),
        ("0~59 * * * * x", "cannot read the schedule"),
        ("hello world", "five fields and a command"),
        ("* * * * * x\0y", "a zero byte"),
        (f"* * * * * {'x' * (MAX_LINE_BYTES + 1)}", "999 bytes, and cron accepts at most 998"),
        (f"* * * * * {'é' * (MAX_LINE_BYTES // 2)}x", "999 bytes"),
    ],
)
def test_what_cron_could_not_read_is_refused(line: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        check(f"# fine\n{line}\n", system=False)
    check(f"A=b\n\n@reboot x\n* * * * * {'x' * MAX_LINE_BYTES}\n", system=False)


@pytest.mark.parametrize(
    "schedule",
    [
        "0 0 L * *", "0 0 LW * *", "0 0 * * MON#1", "0 0 * * 5L", "5/15 * * * *", "007 * * * *", "*/015 * * * *",
        "@DAILY", "@Reboot", "0 0 * JAN/2 *", "0 0 * 1/2 *",
    ],
)  # fmt: skip
def test_what_is_more_than_cron_can_read_is_refused(schedule: str) -> None:
    with pytest.raises(BadInput, match="cron itself cannot read"):
        check(f"{schedule} x\n", system=False)


FIELDS = st.text(alphabet="0123456789*/-,LW#?MONjanSU", min_size=1, max_size=6) | st.from_regex(
    r"\A(\*|[0-7]|[0-9]{1,3}|mon|SUN|Jan|dec|1-5|5-1|fri-sun|sun-fri|0-7|6-7)(/[0-9]{1,3})?(,[0-9]{1,2})?\Z"
)
WORDS = (
    "@daily",
    "@Daily",
    "@midnight",
    "@reboot",
    "@annually",
    "@yearly",
    "@hourly",
    "@every_minute",
    "@5",
    "@weekly",
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), FIELDS), min_size=1, max_size=2), st.none() | st.sampled_from(WORDS))
def test_what_is_installed_cron_itself_can_read(crontab: str, odd: list[tuple[int, str]], word: str | None) -> None:
    fields = ["*"] * 5
    for place, field in odd:
        fields[place] = field
    line = f"{word or ' '.join(fields)} x\n"
    try:
        check(line, system=False)
    except BadInput:
        assume(False)
    done = subprocess.run([crontab, "-n", "-"], input=line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, line


@pytest.fixture(scope="module")
def crontab() -> str:
    return tool("crontab", "apt-get install cron")


def test_in_the_systems_format_a_line_without_a_user_is_refused() -> None:
    """The message said that a user was missing, and not that the command was taken for it."""
    with pytest.raises(BadInput, match=r"after the schedule come a user and a command, and here is only '/bin/x'$"):
        check("* * * * * /bin/x\n", system=True)
    with pytest.raises(BadInput, match="a crontab line is five fields, a user and a command"):
        check("* * * * /bin/x\n", system=True)


# --- a marked block ---------------------------------------------------------------------------------------------------


@given(st.text(alphabet="a*# \t\r\n%\\'=@\xe9\udc80", max_size=60), st.text(alphabet="ab \n%'", max_size=20))
def test_installing_twice_is_installing_once_and_removing_restores_the_rest(before: str, body: str) -> None:
    body = f"@daily x{body}"
    once = install(before, "shop", body)
    assert install(once, "shop", body) == once
    ended = before if not before or before.endswith("\n") else f"{before}\n"
    assert remove(once, "shop") == ended
    other = install(once, "news", "@daily y")
    assert remove(other, "shop") == install(ended, "news", "@daily y")
    assert remove(before, "shop") == before


def test_a_block_is_replaced_where_it_stands_and_nothing_else_is_touched() -> None:
    text = install(MINE, "shop", "@daily x") + "@daily below"
    after = install(text, "shop", "@hourly y\r\n@hourly z\r\n")
    assert after.startswith(MINE)
    assert after.endswith("# END cronce shop\n@daily below")
    assert [entry.command for entry in entries(after) if entry.block == "shop"] == ["y", "z"]


@pytest.mark.parametrize(
    "text",
    [
        "# BEGIN cronce shop\n@daily x\n",
        "# END cronce shop\n",
        "# BEGIN cronce shop\n# BEGIN cronce news\n# END cronce shop\n",
        "# BEGIN cronce shop\n# END cronce shop\n# BEGIN cronce shop\n# END cronce shop\n",
    ],
)
def test_marks_that_do_not_match_are_never_guessed_at(text: str) -> None:
    with pytest.raises(BadInput, match=r"line [12345] "):
        install(text, "shop", "@daily y")
    with pytest.raises(BadInput):
        remove(text, "shop")


@pytest.mark.parametrize("body", ["", " \n\n", "@daily x\n# END cronce shop", "# BEGIN cronce x y"])
def test_an_empty_block_and_one_with_marks_in_it_are_refused(body: str) -> None:
    with pytest.raises(BadInput):
        install("", "shop", body)


def test_what_is_in_force_above_a_block_is_known() -> None:
    text = f"A=1\n{install('', 'shop', 'B=2')}C=3\n"
    assert (above(text, "shop"), above(text, "new")) == ({"A": "1"}, {"A": "1", "B": "2", "C": "3"})
    assert blocks(text) == {"shop": range(1, 4)}


# --- what stands there twice ------------------------------------------------------------------------------------------


def test_the_same_schedule_and_command_twice_is_once_and_the_rest_stays() -> None:
    text = f"{MINE}*/5  *  * * *   /bin/x 100\\%\n@hourly z\n0 * * * * z \n0 * * * 1 z\n@reboot y\xe9\udcff"
    after = dedupe(text)
    assert after == f"{MINE}@hourly z\n0 * * * 1 z\n"
    assert dedupe(after) == after


def test_under_another_setting_or_for_another_user_the_same_words_are_another_job() -> None:
    text = "DB=a\n@daily x\nDB=b\n@daily x\nCRON_TZ=Asia/Tokyo\n@daily x\n"
    assert dedupe(text) == text
    text = "@daily ada x\n@daily bob x\n"
    assert dedupe(text, system=True) == text


def test_of_equal_lines_the_one_that_a_deploy_writes_stays() -> None:
    block = install("", "shop", "@daily x")
    assert dedupe(f"@daily x\n{block}") == block
    both = f"{block}{install('', 'news', '@daily x')}"
    assert dedupe(both) == both


# --- guarded lines ----------------------------------------------------------------------------------------------------


def jobs(text: str) -> list[str]:
    return [entry.job for entry in entries(text) if entry.guard == "cronce"]


def guarded(line: str, host: CronHost = HOST, *, system: bool = False) -> str:
    after, left = wrap(line, host, system=system)
    assert ([one.why for one in left], after != line) == ([], True)
    return after


def test_a_line_keeps_its_schedule_and_gets_a_name_from_its_command() -> None:
    name = job_name(entries("* * * * * /opt/sync.sh --all")[0], HOST)
    assert (
        guarded("*/5  * * * *  /opt/sync.sh --all\n")
        == f"*/5  * * * *  /opt/cronce exec {name} --schedule '*/5 * * * *' -- /opt/sync.sh --all\n"
    )
    assert name.startswith("sync.sh-")


def test_the_name_is_the_commands_and_the_users_and_holds_no_password() -> None:
    def named(line: str, host: CronHost = HOST) -> str:
        (name,) = jobs(wrap(line, host)[0])
        return name

    line = "@daily cd /srv && DB=x ./bin/dump.sh -pS3CRET > /dev/null"
    other = CronHost("/usr/bin/cronce", "Europe/Berlin", "ada")
    assert named(line) == named(line.replace("@daily", "5 4 * * * ") + " \t", other) == "dump.sh-789c2c75"
    assert named(line) != named(line, HOST._replace(user="bob"))
    assert named("@daily (umask 2; true)").startswith("umask-")
    assert named("@daily 'x'").startswith("x-")
    assert named("@daily A=b").startswith("job-")


def test_where_a_shell_has_something_to_do_the_crontabs_own_shell_does_it() -> None:
    assert guarded("@daily cd / && x").endswith(" -- /bin/sh -c 'cd / && x'")
    assert guarded("SHELL=/bin/bash\n@daily x >y").endswith(" -- /bin/bash -c 'x >y'")
    assert guarded('SHELL="/opt/my 50% shell/bash"\n@daily x').endswith(r" -- '/opt/my 50\% shell/bash' -c 'x'")
    assert guarded("@daily php artisan").endswith(" -- /bin/sh -c 'php artisan'"), (
        "a word without a path may be a builtin"
    )
    assert guarded("@daily A=/b x").endswith(" -- /bin/sh -c 'A=/b x'")
    assert guarded("@daily ~/x").endswith(" -- /bin/sh -c '~/x'")


def test_a_percent_sign_stays_what_it_was() -> None:
    assert guarded(r"@daily /bin/date +\%F").endswith(r" -- /bin/date +\%F")
    assert guarded("@daily mail you %hello%'there'").endswith(" -- /bin/sh -c 'mail you '%hello%'there'")
    assert guarded(r"@daily echo '100\%' \\%input").endswith(r" -- /bin/sh -c 'echo '\''100\%'\'' \\'%input")


def cron_reads(command: str) -> tuple[str, str]:
    """What cron makes of a command: what the shell gets, and its input. Written from cron's own loop."""
    out, at, escaped = "", 0, False
    while at < len(command):
        letter = command[at]
        at += 1
        if escaped:
            out = out[:-1] + letter if letter == "%" else out + letter
            escaped = False
            continue
        escaped = letter == "\\"
        if letter == "%":
            return out, command[at:]
        out += letter
    return out, ""


@given(st.text(alphabet="ab/ \\'\"%$;&=-", min_size=1, max_size=30))
def test_whatever_the_command_the_shell_under_the_guard_gets_what_the_shell_got(command: str) -> None:
    text = f"@daily {command}\n"
    after, left = wrap(text, HOST)
    assume(not left and entries(text))
    (entry,) = entries(text)
    line, fed = cron_reads(after[len(entry.head) :].removesuffix("\n"))
    before, expected = cron_reads(entry.command)
    words = shlex.split(line)
    inner = words[words.index("--") + 1 :]
    assert fed == expected
    if inner[:2] == ["/bin/sh", "-c"]:
        assert inner[2:] == [before]
    else:
        assert inner == before.split()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("@reboot x", "@reboot is when a machine starts"),
        ("@daily cronce exec x --schedule @daily -- y", "it is already guarded"),
        ("@daily flock -n l x", "this host only"),
        ("0~30 * * * * x", "each machine would choose its own"),
        ("SHELL=/usr/bin/fish\n@daily x", "SHELL=/usr/bin/fish"),
        ("SHELL=/opt/a\\b/sh\n@daily x", "SHELL=/opt/a"),
        ("@daily x\r", "carriage return"),
        (f"@daily {'x' * 960}", "and cron accepts at most 998"),
        ("CRON_TZ=Asia/Tokyo\n@daily x", "CRON_TZ=Asia/Tokyo is set above it"),
        ("# BEGIN cronce shop\n@daily x\n# END cronce shop", "the block shop"),
    ],
)
def test_what_cannot_be_guarded_is_left_as_it_is_and_said(line: str, why: str) -> None:
    after, (left,) = wrap(f"{line}\n", HOST)
    assert after == f"{line}\n"
    assert why in left.why


@pytest.mark.timeout(20)
@pytest.mark.parametrize("command", ["a" * 5_000 + "!", "a " * 2_500 + "!", "\\%" * 2_500 + "!", "\\" * 5_000])
def test_a_long_line_is_read_at_once(command: str) -> None:
    text = f"@daily {command}\n"
    after, (left,) = wrap(text, HOST)
    assert (after, "bytes, and cron accepts at most 998" in left.why) == (text, True)


def test_guarding_twice_is_guarding_once() -> None:
    once, _ = wrap(MINE.replace("@reboot", "@daily"), HOST)
    assert len(jobs(once)) == 2
    assert wrap(once, HOST)[0] == once


def test_the_zone_is_that_by_which_cron_fires() -> None:
    berlin = HOST._replace(zone="Europe/Berlin")
    assert " --tz Europe/Berlin -- " in guarded("0 9 * * * x", berlin)
    assert " --tz " not in guarded("0 9 * * * x")
    text = "CRON_TZ=Asia/Tokyo\n0 9 * * * x"
    assert " --tz Asia/Tokyo -- " in guarded(text, berlin._replace(follows_cron_tz=True))
    assert " --tz Europe/Berlin -- " in guarded(text, berlin._replace(told=True))
    assert zone_of(entries(text)[0], berlin) is None


def test_the_user_stays_before_the_guard() -> None:
    assert guarded("@daily  www  /bin/x\n", system=True).startswith("@daily  www  /opt/cronce exec x-")


def names(text: str, *, beside: str = "") -> list[str]:
    """Of the lines that were not guarded before."""
    after, _ = wrap(text, HOST, beside=entries(beside))
    return [now.job for now, before in zip(entries(after), entries(text), strict=True) if now.job and not before.job]


LINE = "@daily /srv/sync.sh\n"


@pytest.mark.parametrize(
    "text",
    [f"DB=prod\n{LINE}DB=staging\n{LINE}", f"{LINE}DB=staging\n{LINE}", """@daily rm "a  b"\n@daily rm "a b"\n"""],
)
def test_two_lines_that_do_different_things_are_two_jobs(text: str) -> None:
    assert len(set(names(text))) == 2
    assert names(text) == names(f"PATH=/opt/bin\n{text}"), "what all lines have in common tells none apart"


def test_a_setting_is_of_the_name_only_where_it_tells_two_lines_apart() -> None:
    (plain,) = names(LINE)
    assert names(f"DB=prod\n{LINE}") == names(f"DB=prod\n{LINE}DB=x\n@reboot /srv/sync.sh\n") == [plain]
    assert names(f"{LINE}@hourly /srv/sync.sh\n") == [plain, plain]
    prod, staging = names(f"DB=prod\n{LINE}DB=staging\n{LINE}")
    assert plain not in (prod, staging)
    assert names(f"DB=staging\n{LINE}DB=prod\n{LINE}") == [staging, prod]


def test_a_line_that_is_guarded_keeps_its_name_for_itself() -> None:
    (plain,) = names(LINE)
    once, _ = wrap(f"DB=prod\n{LINE}", HOST)
    (staging,) = names(f"{once}DB=staging\n{LINE}")
    assert staging != plain
    assert names(f"DB=staging\n{LINE}", beside=once) == [staging]
    assert names(f"{LINE}{once}") not in ([plain], [staging])
    assert names(f"{once}@hourly /srv/sync.sh\n") == [plain]


def test_when_a_line_fires_is_told() -> None:
    assert cron_of(entries("@hourly x")[0], "UTC") == Cron("@hourly")


def test_the_quotes_are_a_shells(tmp_path: Path) -> None:
    """Not by another parser of ours: a real shell takes the guarded line apart."""
    show = tmp_path / "show"
    show.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    show.chmod(0o755)
    line = guarded(
        """@daily printf '%s|' "it's" 'a "b"' \\$HOME $((1 + 2)) `echo x`\n""".replace("%", "\\%"),
        HOST._replace(cronce=str(show)),
    )
    command, _ = cron_reads(line.removeprefix("@daily ").rstrip())
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == 'it\'s|a "b"|$HOME|3|x|'


@pytest.mark.parametrize(
    ("command", "what"),
    [
        ("cd / && run-parts --report /etc/cron.hourly", "run-parts --report /etc/cron.hourly"),
        (
            "test -x /usr/sbin/anacron || { cd / && run-parts --report /etc/cron.daily; }",
            "run-parts --report /etc/cron.daily",
        ),
        ("/usr/sbin/logrotate /etc/logrotate.conf", "logrotate"),
        ("certbot -q renew", "certbot"),
        ("[ -x /usr/lib/php/sessionclean ] && /usr/lib/php/sessionclean", "sessionclean"),
    ],
)
def test_what_looks_after_its_own_host_is_left_and_told_why(command: str, what: str) -> None:
    """Guarded, logs would be rotated on one host only."""
    line = f"17 * * * * {command}\n"
    text, left = wrap(line, HOST)
    assert text == line
    said = f"{what} maintains one host, so it must run on every host; if not, put `cronce exec` before it"
    assert [one.why for one in left] == [said]


@pytest.mark.parametrize(
    "command",
    ["run-parts /opt/shop/jobs.d", "/opt/shop/certbot-report.sh", "/opt/apt.sh", "./anacron-like", "sync.sh apt"],
)
def test_what_only_sounds_like_upkeep_is_guarded(command: str) -> None:
    assert guarded(f"17 * * * * {command}\n").startswith("17 * * * * /opt/cronce exec ")
