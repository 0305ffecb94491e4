"""What is read from Python, and what names stand for across files."""

import pickle
import textwrap
from collections.abc import Mapping
from itertools import chain
from pathlib import Path

import pytest

from cronce_audit.model import Facts, Source, Unreadable
from cronce_audit.python.facts import (
    Bound,
    Call,
    Called,
    Const,
    Function,
    Module,
    Name,
    Operation,
    Package,
    Table,
    Typed,
)
from cronce_audit.python.names import Names, names, starts
from cronce_audit.python.read import is_interesting, read
from tests.audit.trees import findings_in

WORD = "# scheduler\n"
BACKGROUND = "apscheduler.schedulers.background.BackgroundScheduler"


def facts_of(tree: Mapping[str, str]) -> Facts:
    return Facts(chain.from_iterable(read(Source(p, WORD + textwrap.dedent(text))) for p, text in tree.items()), 2026)


def names_of(tree: Mapping[str, str]) -> Names:
    return facts_of(tree).conclude(names)


def only_call(tree: Mapping[str, str], method: str) -> tuple[Names, Call]:
    known = names_of(tree)
    (call,) = known.calls(method)
    return known, call


def kind_of_receiver(tree: Mapping[str, str], method: str = "add_job") -> str:
    known, call = only_call(tree, method)
    return known.kind(known.receiver(call))


def test_a_file_without_a_word_of_ours_is_not_parsed() -> None:
    assert list(read(Source("app.py", "x = (\n"))) == []
    assert not is_interesting("app.py", "import os\n")
    assert is_interesting("app.py", "from APScheduler import x")


def test_a_package_is_known_though_its_file_is_empty() -> None:
    assert list(read(Source("src/app/__init__.py", ""))) == [Package("src.app")]


@pytest.mark.parametrize("text", ["print 'scheduler'\n", "def scheduler(:\n", "scheduler = '\0'\n"])
def test_what_is_not_python_3_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable, match="not Python 3"):
        list(read(Source("app.py", text)))


def test_values_are_read_as_they_stand() -> None:
    facts = facts_of({
        "app.py": """
        a = 60 * 60
        b = -1
        c = ["x", *others]
        d = {"k": 1, **more}
        e = f"lock:{a}"
        f = a or None
        g = os.environ["TZ"]
        """
    })  # fmt: skip
    told = {bound.name: repr(bound.value) for bound in facts.of(Bound)}
    assert told["app.a"] == "Const(value=3600)"
    assert told["app.b"] == "Const(value=-1)"
    assert told["app.c"] == "Items(values=(Const(value='x'),), splat=True)"
    assert told["app.d"] == "Table(pairs=((Const(value='k'), Const(value=1)),), splat=True)"
    assert told["app.e"] == "Joined(parts=(Const(value='lock:'), Name(dotted='app.a')))"
    assert told["app.f"] == "Operation(operator='or', values=(Name(dotted='app.a'), Const(value=None)))"
    assert told["app.g"] == "Name(dotted='app.os.environ[TZ]')"


def test_values_of_different_kinds_are_never_equal() -> None:
    assert len({Name("x"), Const("x")}) == 2
    assert Name("x") == Name("x")


def test_a_scope_tells_what_is_around_a_call() -> None:
    facts = facts_of({
        "app.py": """
        def run(lock):
            if not lock:
                return
            with lock:
                try:
                    for x in y:
                        work()
                except ValueError:
                    rest()
                finally:
                    release()
        if __name__ == "__main__":
            run(1)
        """
    })  # fmt: skip
    scopes = {call.method: call.scope for call in facts.of(Call)}
    lock = Name("app.run.<locals>.lock")
    work = scopes["work"]
    assert (work.function, work.loop, work.main, work.tests, work.contexts, work.caught) == (
        "app.run", True, False, (lock,), (lock,), (Name("ValueError"),),
    )  # fmt: skip
    assert (scopes["run"].function, scopes["run"].main) == ("", True)


def test_a_guard_holds_for_the_rest_of_its_block_only() -> None:
    facts = facts_of({
        "app.py": """
        import sys
        def run():
            if a:
                sys.exit(1)
            inside()
        outside()
        """
    })  # fmt: skip
    tests = {call.method: call.scope.tests for call in facts.of(Call)}
    assert tests["inside"] == (Operation("not", (Name("app.a"),)),)
    assert tests["outside"] == ()


def test_imports_are_names_in_full() -> None:
    facts = facts_of({
        "app/jobs/run.py": """
        import os.path
        import numpy as np
        from . import tools
        from ..core.base import make as build
        os.path.join(); np.one(); tools.two(); build()
        """
    })  # fmt: skip
    assert [call.called.function for call in facts.of(Call)] == [
        Name("os.path.join"), Name("numpy.one"), Name("app.jobs.tools.two"), Name("app.core.base.make"),
    ]  # fmt: skip


def test_a_function_tells_its_parameters_decorators_and_results() -> None:
    facts = facts_of({
        "app.py": """
        @hook("startup")
        async def run(self, s: "Store | None" = None, *, n=1):
            yield s
            return n
        """
    })  # fmt: skip
    (function,) = facts.of(Function)
    assert function.is_async
    assert repr(function.decorators[0]).startswith("Called(function=Name(dotted='app.hook')")
    assert [(p.short, p.annotation) for p in function.parameters][1] == ("s", Typed(Name("app.Store")))
    assert function.parameters[2].default == Const(1)
    assert function.yields == (Name("app.run.<locals>.s"),)
    assert function.returns == (Name("app.run.<locals>.n"),)


def test_module_names_come_from_paths() -> None:
    facts = facts_of({"src/app/__init__.py": "x = 1", "src/app/jobs.py": "from x import *"})
    assert [(m.name, m.stars) for m in facts.of(Module)] == [("src.app", ()), ("src.app.jobs", ("x",))]


@pytest.mark.parametrize(
    "text",
    [
        "from apscheduler.schedulers.background import BackgroundScheduler\ns = BackgroundScheduler()\ns.add_job()",
        "import apscheduler.schedulers.background as b\ns = t = b.BackgroundScheduler()\nt.add_job()",
        "from apscheduler.schedulers import background\nbackground.BackgroundScheduler().add_job()",
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        s = None
        def init():
            global s
            s = BackgroundScheduler()
        def other():
            s.add_job()
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        class App:
            def __init__(self):
                self.s = BackgroundScheduler()
            def run(self):
                self.s.add_job()
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        class App:
            s = BackgroundScheduler()
        class Sub(App):
            def run(self):
                self.s.add_job()
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        class App:
            def __init__(self):
                self.s = BackgroundScheduler()
        app = App()
        app.s.add_job()
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        class App:
            @property
            def s(self):
                return BackgroundScheduler()
        App().s.add_job()
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        class Base: ...
        class App(Base):
            def __init__(self, s):
                super().__init__()
                self._s = s
            @property
            def s(self):
                return self._s
            def run(self):
                self.s.add_job()
        App(BackgroundScheduler())
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        def make():
            s = BackgroundScheduler()
            return s
        make().add_job()
        """,
        """
        from __future__ import annotations
        from typing import TYPE_CHECKING, Any
        if TYPE_CHECKING:
            from apscheduler.schedulers.background import BackgroundScheduler
        else:
            BackgroundScheduler = Any
        def run(s: BackgroundScheduler) -> None:
            s.add_job()
        """,
        """
        from typing import Optional
        from apscheduler.schedulers.background import BackgroundScheduler
        def run(s: Optional["BackgroundScheduler"] = None):
            s.add_job()
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        def run(s):
            s.add_job()
        run(BackgroundScheduler())
        """,
        """
        from apscheduler.schedulers.background import BackgroundScheduler
        def run(s=None):
            s = s or BackgroundScheduler()
            s.add_job()
        """,
        """
        from contextlib import contextmanager
        from apscheduler.schedulers.background import BackgroundScheduler
        @contextmanager
        def running():
            yield BackgroundScheduler()
        with running() as s:
            s.add_job()
        """,
        """
        try:
            from apscheduler.schedulers.background import BackgroundScheduler
        except ImportError:
            BackgroundScheduler = None
        s = BackgroundScheduler() if ready else None
        s.add_job()
        """,
    ],
)
def test_a_receiver_is_followed_to_where_it_is_made(text: str) -> None:
    assert kind_of_receiver({"app.py": text}) == BACKGROUND


JOBS = "from app.ext import scheduler\nscheduler.add_job()"
USES = "import app\napp.scheduler.add_job()"
MAKES = "from apscheduler.schedulers.background import BackgroundScheduler\nscheduler = BackgroundScheduler()\n"


@pytest.mark.parametrize(
    "tree",
    [
        {"app/__init__.py": "", "app/ext.py": MAKES, "app/jobs.py": "from .ext import scheduler\nscheduler.add_job()"},
        {"app/__init__.py": "from .ext import scheduler", "app/ext.py": MAKES, "x.py": USES},
        {"app/__init__.py": "from .ext import *", "app/ext.py": MAKES, "x.py": USES},
        {"src/app/__init__.py": "", "src/app/ext.py": MAKES, "src/app/jobs.py": JOBS},
        {"src/ns/ext.py": MAKES, "src/ns/jobs.py": "import ns.ext\nns.ext.scheduler.add_job()"},
        {"ext.py": MAKES, "jobs.py": "from ext import scheduler\nscheduler.add_job()"},
        {
            "one/app/__init__.py": "", "one/app/ext.py": MAKES, "one/app/jobs.py": JOBS,
            "two/app/__init__.py": "", "two/app/ext.py": "scheduler = Other()",
        },
    ],
)  # fmt: skip
def test_a_receiver_is_followed_across_files(tree: dict[str, str]) -> None:
    assert kind_of_receiver(tree) == BACKGROUND


@pytest.mark.parametrize(
    "text",
    [
        "s.add_job()",
        "from queue import Jobs\ns = Jobs()\ns.add_job()",
        f"{MAKES}scheduler = Other()\nscheduler.add_job()",
        f"{MAKES}for scheduler in many:\n    scheduler.add_job()",
        f"{MAKES}def run(scheduler):\n    scheduler.add_job()",
        "def a():\n    return b()\ndef b():\n    return a()\na().add_job()",
        "a = b\nb = a\na.add_job()",
        f"{MAKES}def run(s):\n    s.add_job()\nrun(scheduler)\nrun(*rest)",
    ],
)
def test_what_cannot_be_followed_is_unknown(text: str) -> None:
    assert kind_of_receiver({"app.py": text}) not in (BACKGROUND, f"{BACKGROUND}.add_job")


def test_a_module_beside_a_library_of_its_name_is_not_the_library() -> None:
    known, call = only_call(
        {
            "app/__init__.py": "",
            "app/schedule.py": "def every(): return 1",
            "app/jobs.py": "import schedule\nschedule.every()",
        },
        "every",
    )  # fmt: skip
    assert known.target(call) == "schedule.every"


def test_a_subclass_is_of_the_kind_of_its_base() -> None:
    known, call = only_call(
        {
            "a.py": f"import apscheduler.schedulers.background\nclass S({BACKGROUND}): pass",
            "b.py": "from a import S\nS().add_job()",
        },
        "add_job",
    )
    assert known.kinds(known.receiver(call)) == ["a.S", BACKGROUND]
    assert known.target(call) == "a.S.add_job"


@pytest.mark.parametrize("change", ["a['x'] = 1", "a[key] = 1", "a.update(x=1)", "a.setdefault('x', 1)"])
def test_a_dict_that_is_filled_later_is_not_all_there(change: str) -> None:
    known = names_of({"app.py": f"a = {{}}\n{change}\nb = {{}}"})
    assert known.origin(Name("app.a")) == Table((), splat=True)
    assert known.origin(Name("app.b")) == Table(())


def test_constants_are_followed_too() -> None:
    known, call = only_call(
        {
            "settings.py": "ZONE = 'Europe/' + 'Berlin'",
            "app.py": "import settings\nrun(settings.ZONE, [1, settings.ZONE], x)",
        },
        "run",
    )
    told = [known.constant(each, "app") for each in call.called.args]
    assert told[:2] == ["Europe/Berlin", (1, "Europe/Berlin")]
    assert not isinstance(told[2], str)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("add_job()", "when its module is imported"),
        ("if __name__ == '__main__':\n    add_job()", "when the program starts"),
        ("def main():\n    add_job()", "in main()"),
        ("def a():\n    add_job()\ndef b():\n    a()\nb()", "when its module is imported"),
        ("@app.on_event('startup')\nasync def go():\n    add_job()", "in the start-up hook go"),
        ("async def life(app):\n    add_job()\n    yield\napp = FastAPI(lifespan=life)", "in the start-up hook life"),
        ("def go():\n    add_job()\napp.add_event_handler('startup', go)", "in the start-up hook go"),
        ("def go():\n    add_job()\napp = Starlette(on_startup=[go])", "in the start-up hook go"),
        (
            "from django.apps import AppConfig\nclass C(AppConfig):\n    def ready(self):\n        add_job()",
            "in ready()",
        ),
        ("class A:\n    def __init__(self):\n        add_job()\nA()", "when its module is imported"),
        (
            "class A:\n    def __init__(self):\n        self.go()\n    def go(self):\n        add_job()\nA()",
            "when its module is imported",
        ),
        ("@app.post('/jobs')\ndef create():\n    add_job()", ""),
        ("def never():\n    add_job()", ""),
        ("def a():\n    b()\ndef b():\n    a()\n    add_job()", ""),
        ("class A:\n    def ready(self):\n        add_job()", ""),
        ("@app.on_event('shutdown')\ndef stop():\n    add_job()", ""),
        ("run(lambda: add_job())", ""),
    ],
)  # fmt: skip
def test_what_runs_at_each_start(text: str, why: str) -> None:
    facts = facts_of({"app.py": text})
    (call,) = facts.conclude(names).calls("add_job")
    assert facts.conclude(starts).why(call.scope) == why


@pytest.mark.parametrize(
    "text", [f"x = {' + '.join(['a'] * 400)}", f"x = a{'.b()' * 150}", f"x = {'[' * 80}{']' * 80}"]
)
def test_what_is_nested_deeply_is_read_as_far_as_it_crosses_to_another_process(text: str) -> None:
    facts = list(read(Source("app.py", f"{WORD}{text}\nadd_job()")))
    assert pickle.loads(pickle.dumps(facts)) == facts
    assert facts_of({"app.py": f"{text}\nadd_job()"}).of(Call)[-1].method == "add_job"


def test_names_that_stand_for_each_other_over_and_over_end() -> None:
    text = "\n".join(f"a{n} = a{n + 1}" for n in range(200))
    known, call = only_call({"app.py": f"{text}\na0.add_job()"}, "add_job")
    assert not isinstance(known.receiver(call), Called)


def test_circles_within_circles_come_to_an_end(tmp_path: Path) -> None:
    """Eleven of these took minutes, and each further one ten times as long: fifteen would take years."""
    code = "from apscheduler.schedulers.background import BackgroundScheduler\ndef job(): ...\n"
    for number in range(15):
        code += (
            f"class C{number}:\n    def run(self, z):\n        z.run(z)\n        z.add_job(job, 'interval', hours=1)\n"
        )
        code += f"def f{number}(x):\n    x.run(x)\ndef g{number}(c):\n    f{number}(c)\n    c.run(c)\n"
    assert findings_in(tmp_path, {"app.py": code}) == []
