"""Which programs of Node are started, how often, and which files each of them loads.

A job runs in every process that loads its file. Where the way from a program's first file to the job is not seen whole
(an alias that nothing resolves, `require(name)`), the program still counts if its package has no other.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final, NamedTuple

from cronce_audit.java import in_every_instance, without_lock
from cronce_audit.javascript.code import JOB_STEMS, Job, Module, Package, Pm2App, last_word
from cronce_audit.javascript.jobs import TIMER
from cronce_audit.model import Confidence, Facts, Found, Place, Severity, is_of_process, rule
from cronce_audit.other_languages import several
from cronce_audit.processes.argv import ONE, SEVERAL, Argv, Count, count, programs, told_in
from cronce_audit.processes.commands import started
from cronce_audit.processes.units import commands

_SUFFIXES: Final = ("", ".ts", ".js", ".mts", ".mjs", ".cts", ".cjs", ".tsx", ".jsx", "/index.ts", "/index.js")
_BUILT: Final = re.compile(r"(?:^|(?<=/))(?:dist|build|lib|out|output|\.build|dist/src|build/src)/")
_MANAGERS: Final = frozenset({"npm", "yarn", "pnpm", "bun"})
_RUNNERS: Final = frozenset({"node", "nodejs", "tsx", "ts-node", "bun"})
_DEEPEST: Final = 4
"""Scripts of package.json that start others."""


class Start(NamedTuple):
    """Where something is started from, how often, and who says so."""

    folder: str
    copies: Count
    place: Place
    how: str
    """In words: `pm2 starts 4 of it`."""
    confidence: Confidence = Confidence.HIGH
    kept_at_one: bool = False
    """It is written down that there is to be one."""


class Program(NamedTuple):
    """A program that is started, and the files that it loads."""

    files: frozenset[str]
    is_whole: bool
    """All that it loads is among the files."""
    script: str
    package: str
    """The folder of its package.json; "" where there is none."""
    start: Start


class Script(NamedTuple):
    """A file that is started, as it is written."""

    name: str
    start: Start


class Tree:
    """The files of a tree by their paths, and how they find each other."""

    def __init__(self, facts: Facts) -> None:
        self.modules: Final[Mapping[str, Module]] = {module.path: module for module in facts.of(Module)}
        self.packages: Final[Mapping[str, Package]] = {_folder(one.path): one for one in facts.of(Package)}
        self._loaded: Final[dict[str, tuple[frozenset[str], bool]]] = {}
        self._by_stem: Final[dict[str, list[str]]] = {}
        for path in self.modules:
            stem = PurePosixPath(path).with_suffix("")
            self._by_stem.setdefault((stem.parent if stem.name == "index" else stem).name, []).append(path)

    def package_of(self, path: str) -> str | None:
        """The folder of the nearest package.json above; of the only one there is, if none is above."""
        for folder in PurePosixPath(path).parents:
            if str(folder) in self.packages:
                return str(folder)
        return next(iter(self.packages)) if len(self.packages) == 1 else None

    def imported(self, by: str, name: str) -> str | None:
        """The file that `name` means in the file `by`."""
        if name.startswith("."):
            return self._file(normpath(f"{_folder(by)}/{name}"))
        rest = re.sub(r"^(?:@\w*/|~/?|#/?)", "", name)
        tail = re.sub(r"\.[cm]?js$", "", rest)
        found = [path for path in self._by_stem.get(PurePosixPath(tail).name, ()) if _ends(path, tail)]
        return found[0] if len(found) == 1 else None

    def started(self, script: str, folder: str) -> str | None:
        """The file that a command means: as it is, or as it was before it was built."""
        name = normpath(script.lstrip("/"))
        parts = PurePosixPath(name).parts
        for start in range(len(parts)):
            rest = "/".join(parts[start:])
            for base in dict.fromkeys((folder, self.package_of(f"{folder}/x") or folder, ".")):
                for written in (rest, _BUILT.sub("src/", rest, count=1), _BUILT.sub("", rest, count=1)):
                    found = self._file(normpath(f"{base}/{written}"))
                    if found:
                        return found
        return None

    def _file(self, path: str) -> str | None:
        plain = re.sub(r"\.([cm]?)jsx?$", r".\1ts", path)
        candidates = [path + suffix for suffix in _SUFFIXES] + [plain, f"{plain}x"]
        return next((one for one in candidates if one in self.modules), None)

    def loads(self, first: str) -> tuple[frozenset[str], bool]:
        """The files that are loaded with the first, and whether that is all."""
        if first not in self._loaded:
            self._loaded[first] = self._load(first)
        return self._loaded[first]

    def _load(self, first: str) -> tuple[frozenset[str], bool]:
        found = {first}
        waiting = [first]
        is_whole = True
        while waiting:
            module = self.modules[waiting.pop()]
            is_whole = is_whole and not module.is_opaque
            for name in module.imports:
                path = self.imported(module.path, name)
                is_whole = is_whole and (path is not None or name.endswith((".json", ".css", ".scss", ".svg")))
                if path and path not in found:
                    found.add(path)
                    waiting.append(path)
        return frozenset(found), is_whole


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def _ends(path: str, tail: str) -> bool:
    stem = str(PurePosixPath(path).with_suffix("")).removesuffix("/index")
    return stem == tail or stem.endswith(f"/{tail}")


def tree(facts: Facts) -> Tree:
    return Tree(facts)


def fleet(facts: Facts) -> Sequence[Program]:
    """The programs that are started in a tree."""
    known = facts.conclude(tree)
    return [_program(known, script) for script in _scripts(facts, known)]


def _program(known: Tree, script: Script) -> Program:
    start = script.start
    first = known.started(script.name, start.folder)
    files, is_whole = known.loads(first) if first else (frozenset[str](), False)
    package = known.package_of(first or f"{start.folder}/x")
    return Program(files, is_whole, first or script.name, package or "", start)


def _scripts(facts: Facts, known: Tree) -> Iterator[Script]:
    for app in facts.of(Pm2App):
        copies, kept = _instances(app.instances or "1"), app.instances == "1"
        how = f"pm2 starts {copies} of it"
        yield Script(app.script, Start(_folder(app.place.path), copies, app.place, how, kept_at_one=kept))
    for package in facts.of(Package):
        for _, told, place in package.scripts:
            for argv in programs(("sh", "-c", told), {}):
                if argv.program.startswith("pm2"):
                    yield from _by_pm2(argv, Start(_folder(package.path), ONE, place, ""))
    for one in facts.conclude(started):
        how = f"`{one.by.name}` runs in {one.copies} copies"
        yield from _by(one.argv, Start(one.folder, one.copies, one.by.copies_at, how, one.by.confidence), known)


def _by(argv: Argv, start: Start, known: Tree, depth: int = 0) -> Iterator[Script]:
    """The files of ours that a command comes to."""
    told = told_in(argv.arguments).words
    if argv.program.startswith("pm2"):
        yield from _by_pm2(argv, start)
    elif argv.program in _MANAGERS and depth < _DEEPEST:
        wanted = next((word for word in told if word not in ("run", "run-script", "exec")), "")
        folder = known.package_of(f"{start.folder}/x")
        package = known.packages.get(folder or "")
        inner = next((text for name, text, _ in package.scripts if name == wanted), "") if package else ""
        for one in programs(("sh", "-c", inner), {}):
            yield from _by(one, start._replace(folder=folder or start.folder), known, depth + 1)
    elif argv.program in _RUNNERS and told:
        yield Script(told[0], start)


def _by_pm2(argv: Argv, start: Start) -> Iterator[Script]:
    told = told_in(argv.arguments)
    instances = _instances(told.value("-i", "--instances") or "1")
    script = next((word for word in told.words if word not in ("start", "restart", "reload", "startOrRestart")), "")
    how = f"pm2 starts {instances} of it" if instances.is_several else start.how
    if script:
        yield Script(script, start._replace(copies=start.copies.times(instances), how=how))


def _instances(told: str) -> Count:
    """`max` and 0 are one for each processor, -1 is one less."""
    return SEVERAL if told in ("max", "0", "-1") else count(told)


class Repeated(NamedTuple):
    """A job that several processes run, and who says so."""

    job: Job
    place: Place
    how: str
    confidence: Confidence


def living(facts: Facts) -> Sequence[Job]:
    """The jobs that something starts, as far as that is seen. A file deep in a tree that no other file, script or
    command names is not loaded, and a job in a function that nothing calls does not start."""
    known = facts.conclude(tree)
    if any(module.is_opaque for module in known.modules.values()):
        return facts.of(Job)
    named = frozenset[str]().union(*(module.named for module in known.modules.values()))
    told = " ".join(
        [
            *(" ".join(command.words) for command in facts.conclude(commands)),
            *(text for package in facts.of(Package) for _, text, _ in package.scripts),
            *(app.script for app in facts.of(Pm2App)),
        ]
    )
    called = Counter(name for module in known.modules.values() for name in module.calls)
    return [
        job
        for job in facts.of(Job)
        if _is_loaded(job.place.path, named, told, known) and _is_called(job, called, known.modules.get(job.place.path))
    ]


def _is_loaded(path: str, named: frozenset[str], told: str, known: Tree) -> bool:
    pure = PurePosixPath(path)
    package = PurePosixPath(known.package_of(path) or ".")
    below = pure.relative_to(package) if package in pure.parents else pure
    word = last_word(pure)
    is_program = len(below.parts) <= _PROGRAM_DEPTH or not _LOADED_BY_NAME.isdisjoint(below.parts)
    return is_program or word in named or word in told or below.stem == "instrumentation"


_PROGRAM_DEPTH: Final = 2
"""Parts of a path: `server.js`, `src/server.js` may be what is started."""
_LOADED_BY_NAME: Final = frozenset({
    "plugins", "start", "config", "pages", "app", "api", "hooks", "startup", "boot", "bootstrap", "initializers",
    "tasks",
})  # fmt: skip
"""Folders from which frameworks load whatever is there."""


def _is_called(job: Job, called: Counter[str], own: Module | None) -> bool:
    if job.is_reached or not all(map(JOB_STEMS.search, job.starters)):
        return True
    mine = own.calls if own else frozenset[str]()
    return any(called[name] > (name in mine) for name in job.starters)


def unguarded(facts: Facts) -> Sequence[Job]:
    """Jobs that nothing keeps from running in each process, as far as their code is seen."""
    known = facts.conclude(tree)
    conditional = {name for module in known.modules.values() for name in module.conditional_calls}
    return [
        job
        for job in facts.conclude(living)
        if not job.is_guarded
        and not job.stays_inside
        and not conditional & set(job.starters)
        and not _leans_on_lock(job, known)
        and not is_of_process(job.place.path, job.what)
    ]


def unclear(facts: Facts) -> Sequence[Job]:
    """Jobs behind a condition, or something called a lock, of which nobody can tell what it is worth."""
    known = facts.conclude(tree)
    clear = {*facts.conclude(unguarded)}
    return [
        job
        for job in facts.conclude(living)
        if job not in clear
        and not job.is_locked
        and not job.stays_inside
        and not any(one.surely_locks and one.waits for one in _used(job, known))
        and not is_of_process(job.place.path, job.what)
    ]


def _leans_on_lock(job: Job, known: Tree) -> bool:
    return any(one.has_lock for one in _used(job, known))


def _used(job: Job, known: Tree) -> Iterator[Module]:
    """The files of this tree that its body uses."""
    for name in job.leans_on:
        path = known.imported(job.place.path, name)
        if path:
            yield known.modules[path]


def repeated(facts: Facts) -> Sequence[Repeated]:
    """Jobs that several processes are seen to run, each with the plainest evidence."""
    found = []
    for job in facts.conclude(unguarded):
        evidence = list(_started(job, facts))
        if evidence:
            found.append(max(evidence, key=lambda one: one.confidence))
    return found


def _started(job: Job, facts: Facts) -> Iterator[Repeated]:
    known = facts.conclude(tree)
    programs = facts.conclude(fleet)
    for program in programs:
        _, copies, place, how, confidence, _ = program.start
        if copies.is_several and job.place.path in program.files:
            yield Repeated(job, place, how, min(confidence, _sureness(job, known)))
        elif copies.is_several and not program.is_whole and _is_alone(program, programs, job, known):
            yield Repeated(job, place, how, Confidence.MEDIUM)


def _is_alone(program: Program, programs: Sequence[Program], job: Job, known: Tree) -> bool:
    """The only program of the package that the job is in."""
    others = {one.script for one in programs if one.package == program.package}
    return bool(known.packages) and known.package_of(job.place.path) == program.package and len(others) == 1


def _sureness(job: Job, known: Tree) -> Confidence:
    """Whether all that is used was seen; and a function that registers the job may not be called."""
    is_seen = all(known.imported(job.place.path, name) for name in job.leans_on)
    return Confidence.HIGH if is_seen and not job.starters else Confidence.MEDIUM


@rule(
    "CR701 job-in-every-process",
    Severity.ERROR,
    "run the jobs in a program of their own with one instance, or start the body through a claim on a shared "
    "store (`cronce exec NAME --schedule CRON -- node job.js` in a crontab line on each host, or a row keyed by job "
    "and slot)",
)
def _in_every_process(facts: Facts) -> Iterator[Found]:
    for job, place, how, confidence in facts.conclude(repeated):
        message = f"{job.what} fires in every process ({job.library} knows only its own), and {how} ({place})"
        yield Found(job.place, message, confidence, Severity.INFO if job.library == TIMER else None)
    yield from in_every_instance(facts)


@rule(
    "CR702 job-tied-to-one-process",
    Severity.INFO,
    "keep this program at one process, or let each slot be claimed on a shared store before its body runs",
    confidence=Confidence.MEDIUM,
)
def _tied_to_one_process(facts: Facts) -> Iterator[Found]:
    told = {one.job for one in facts.conclude(repeated)}
    kept = {path for program in facts.conclude(fleet) if program.start.kept_at_one for path in program.files}
    for job in facts.conclude(unguarded):
        if job not in told and job.place.path not in kept:
            yield Found(
                job.place,
                f"{job.what} runs once only as long as one process loads this file: {job.library} knows of no other "
                "process, and no lock is seen",
            )
    for job in facts.conclude(unclear):
        if job.place.path not in kept:
            yield Found(
                job.place,
                f"{job.what} runs in every process that reaches it ({job.library} knows of no other process); the"
                " condition or lock before it does not show how many processes that is",
                Confidence.LOW,
                remedy=_LOOK,
            )
    yield from without_lock(facts)
    yield from several(facts)


_LOOK: Final = (
    "check whether it runs in at most one process, of all workers and machines; if so, write `// cronce:"
    " ignore[CR702] …`"
)
