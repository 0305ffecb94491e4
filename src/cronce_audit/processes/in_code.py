"""Web servers that Python code starts itself: `uvicorn.run("app:app", workers=4)`, `app.run(debug=True)`.

Measured: `uvicorn.Server(Config(workers=4))` is one process, and `uvicorn.run(app, workers=4)` with the app itself
ends with an error; neither is told here as several.
"""

from collections.abc import Iterator

from cronce_audit.model import Facts
from cronce_audit.processes.commands import Serving
from cronce_audit.processes.counts import ONE, SEVERAL, UNKNOWN, Count
from cronce_audit.python.facts import Call, Called, Const, Name, Value
from cronce_audit.python.names import Names, names


def servings_in_code(facts: Facts) -> Iterator[Serving]:
    known = facts.conclude(names)
    for call in known.calls("run"):
        if call.called.function == Name("uvicorn.run"):
            yield _uvicorn(call, known)
        elif _reloads(call) and "flask.Flask" in known.kinds(known.receiver(call), call.scope.module):
            yield Serving("app.run", call.scope.module, ONE, call.place, reload=True)


def _uvicorn(call: Call, known: Names) -> Serving:
    app = known.constant(next(iter(call.called.args), call.called.keyword("app")), call.scope.module)
    reload = call.called.keyword("reload") not in (None, Const(value=False))
    named = isinstance(app, str)
    workers = _number(call.called.keyword("workers"), call, known) if named and not reload else ONE
    return Serving("uvicorn.run", str(app) if named else call.scope.module, workers, call.place)


def _number(value: Value | None, call: Call, known: Names) -> Count:
    number = ONE.least if value is None else known.constant(value, call.scope.module)
    if isinstance(number, int):
        return Count(max(number, 1))
    made = isinstance(value, Called) and known.full_name(value.function, call.scope.module)
    return SEVERAL if made in ("os.cpu_count", "multiprocessing.cpu_count") else UNKNOWN


def _reloads(call: Call) -> bool:
    """Flask's reloader follows `debug`, unless it is told otherwise."""
    told = call.called.keyword("use_reloader") or call.called.keyword("debug")
    return told == Const(value=True) and not call.called.splat
