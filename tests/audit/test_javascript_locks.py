"""Locks made by hand on Redis, in JavaScript."""

from pathlib import Path

import pytest

from tests.audit.trees import findings_in


def found(tmp_path: Path, code: str) -> list[str]:
    said = findings_in(tmp_path, {"lock.ts": code}, "CR301", "CR302", "CR301")
    return [one.replace(" lock.ts", "") for one in said]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("await r.set('lock:a', t, 'EX', 9, 'NX');\nawait r.del('lock:a');\n", ["CR301:2"]),
        ("await r.set('lock:a', t, 'NX', 'PX', 9);\nawait r.unlink('lock:a');\n", ["CR301:2"]),
        ("await r.set(lock, t, { NX: true, EX: 9 });\nif (await r.get(lock) === t) await r.del(lock);\n", ["CR301:2"]),
        ("await r.set('lock:a', t, 'NX');\nawait r.del('lock:a');\n", ["CR302:1"]),
        ("await r.setnx('lock:a', t);\n", ["CR302:1"]),
        ("await r.setNX('lock:a', t);\nawait r.expire('lock:a', 9);\n", ["CR302:1"]),
        ("await r.set('lock:a', t, { NX: true });\n", ["CR302:1"]),
        ("const k = `lock:${name}`;\nawait r.set(k, t, 'EX', 9, 'NX');\nawait r.pexpire(k, 9000);\n", ["CR301:3"]),
        (("class Mutex {\n  async acquireLock(k) { return this.r.set(k, 1, 'EX', 9, 'NX'); }\n"
         "  async free(k) { await this.r.del(k); }\n}\n"), ["CR301:3"]),
    ],
)  # fmt: skip
def test_a_lock_that_does_not_hold_what_it_promises(tmp_path: Path, code: str, says: list[str]) -> None:
    assert found(tmp_path, code) == says


WITH_LOCK = """\
export const runWithLock = async (redis, name, work) => {
  const got = await redis.set(`lock:${name}`, '1', 'PX', 9000, 'NX');
  if (!got) return;
  try { await work(); } finally { await redis.del(`lock:${name}`); }
};
"""


@pytest.mark.parametrize(
    ("path", "says"),
    [("src/cron/lock.ts", ["CR307 src/cron/lock.ts:2"]), ("src/payments/lock.ts", [])],
)
def test_a_lock_of_jobs_that_is_released_when_they_end_lets_a_late_process_repeat_the_slot(
    tmp_path: Path, path: str, says: list[str]
) -> None:
    assert findings_in(tmp_path, {path: WITH_LOCK}, "CR307") == says
    kept = WITH_LOCK.replace("finally { await redis.del(`lock:${name}`); }", "finally { console.log(name); }")
    assert findings_in(tmp_path / "kept", {path: kept}, "CR307") == []


def test_the_class_that_a_method_is_assigned_to_tells_that_it_is_a_lock(tmp_path: Path) -> None:
    code = """\
        Leader.prototype.elect = function () { this.redis.set(this.key, this.id, 'PX', 9, 'NX'); };
        Leader.prototype.renew = function () { this.redis.pexpire(this.key, 9); };
        Other.prototype.renew = function () { this.redis.pexpire(this.other, 9); };
        """
    assert found(tmp_path, code) == ["CR301:2"]


@pytest.mark.parametrize(
    "code",
    [
        "await r.set('lock:a', t, 'EX', 9, 'NX');\nawait r.eval(RELEASE, 1, 'lock:a', t);\n",
        "await r.set('cache:a', t, 'NX');\nawait r.del('cache:a');\n",
        "await r.set('blocks:clock', t, 'NX');\n",
        "await r.set(`lock:login:${user}`, t, 'EX', 900, 'NX');\nawait r.del(`lock:login:${user}`);\n",
        "await r.set('lock:a', t, 'EX', 9, 'NX');\nawait r.del('lock:b');\n",
        "await r.set('lock:a', t, 'EX', 9, 'NX');\nawait other.del('lock:a');\n",
        "await r.set('lock:a', t, options);\nawait r.set('lock:b', t, 'NX', ...rest);\n",
        "await r.set('lock:a', t, { NX: true, ...expiry });\n",
        "await r.set(lockKey, t, { nx: true, ttlSec: 55 });\n",
        "await r.set('lock:a', t, { NX: false, EX: 9 });\nawait r.del('lock:a');\n",
        "await r.set('lock:a', t, 'EX', 9, 'XX');\nawait r.expire('lock:a', 9);\n",
        "await r.watch('lock:a');\nawait r.set('lock:a', t, 'EX', 9, 'NX');\nawait r.del('lock:a');\n",
        "map.set('lock', 1);\nmap.get('lock');\nmap.delete('lock');\n",
        "// await r.setnx('lock:a', t);\nconst NX = 'NX';\n",
    ],
)
def test_what_is_sound_or_unknown_or_no_lock_is_silent(tmp_path: Path, code: str) -> None:
    assert found(tmp_path, code) == []
