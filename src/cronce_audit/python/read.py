"""Which Python files are read at all: those in which one of these words stands, in any case; and where servers begin.

Most files of a tree have nothing to do with schedules. Looking for a word costs a thousandth of parsing.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from cronce_audit.grammars import text, tree, within
from cronce_audit.model import Place, Source, Unreadable, reader
from cronce_audit.python.expressions import Expressions, Fact, Frame, bound_names, opposite
from cronce_audit.python.facts import (
    UNKNOWN,
    Class,
    Const,
    Function,
    Items,
    Module,
    Name,
    Operation,
    Package,
    Scope,
    Value,
)

if TYPE_CHECKING:
    from tree_sitter import Node

INTERESTING: Final = (
    # schedulers, what starts them, and where they run
    "schedul", "add_job", "celery", "crontab", "repeat_every", "repeat_at", "rocketry", "huey", "dramatiq",
    "import arq", "from arq", "import rq", "from rq", "rq_scheduler", "gunicorn", "uvicorn", "hypercorn", "granian",
    "uwsgi", "waitress", "lifespan", "on_startup", "on_event", "flask(", "fastapi(", "starlette(", "create_app",
    "appconfig",
    # hand-made locks
    "setnx", "redis", "valkey", "flock", "lockf", "filelock", "portalocker", "advisory_lock", "get_lock", "cronce",
)  # fmt: skip
_ENTRANCES: Final = frozenset({"wsgi.py", "asgi.py", "gunicorn.conf.py", "gunicorn_conf.py", "gunicorn_config.py"})
"""`from jobs import begin; begin()` may be all that stands in them."""


_WORKERS: Final = re.compile(r"^workers\s*=", re.MULTILINE)
"""Settings of gunicorn, whatever their file is called."""


def is_interesting(name: str, text: str) -> bool:
    lowered = text.lower()
    return name in _ENTRANCES or any(word in lowered for word in INTERESTING) or bool(_WORKERS.search(text))


_EXCEPT: Final = re.compile(
    r"^(?P<head>[ \t]*except\*?[ \t]+)(?P<kinds>[\w.]+(?:[ \t]*,[ \t]*[\w.]+)+)(?P<end>[ \t]*:)", re.M
)
_TEMPLATE: Final = re.compile(r"""(?<![\w"'])[tT](?=[rR]?["'])|(?<![\w"'])(?<=[rR])[tT](?=["'])""")


def in_older_words(source: str) -> str:
    plain = _TEMPLATE.sub("f", _EXCEPT.sub(r"\g<head>(\g<kinds>)\g<end>", source))
    data = plain.encode()
    for node in sorted(_newer(tree("python", plain)), key=lambda one: -one.start_byte):
        data = data[: node.start_byte] + _older(node).encode() + data[node.end_byte :]
    return data.decode()


def _newer(root: "Node") -> list["Node"]:
    """The outermost of each: an f-string in an f-string goes with it."""
    found = [*within(root, "type_parameter", "type_alias_statement")]
    end = -1
    for node in within(root, "string"):
        if node.start_byte >= end and any(child.type == "interpolation" for child in node.named_children):
            end = node.end_byte
            found.append(node)
    return [node for node in found if not any(_is_in(node, other) for other in found)]


def _is_in(node: "Node", other: "Node") -> bool:
    return node is not other and other.start_byte <= node.start_byte and node.end_byte <= other.end_byte


def _older(node: "Node") -> str:
    lines = "\n" * text(node).count("\n")
    if node.type == "type_parameter":
        return lines.replace("\n", "\\\n")
    if node.type == "type_alias_statement":
        name = re.match(r"type\s+(\w+)", text(node))
        return f"{name[1] if name else '_'} = None{lines}"
    return f"(''{lines})" if lines else "''"


_LEAVES: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LEAVING: Final = frozenset({"exit", "sys.exit", "os._exit", "quit"})


def module_name(path: str) -> str:
    """`src/app/jobs.py` is src.app.jobs, `app/__init__.py` is app."""
    pure = PurePosixPath(path)
    parts = pure.parent.parts if pure.stem == "__init__" else (*pure.parent.parts, pure.stem)
    return ".".join(parts)


@reader("python", lambda path: path.suffix in (".py", ".pyw"))
def read(source: Source) -> Iterator[Fact]:
    """Nothing for a file in which no word of ours stands; it is not parsed."""
    is_package = source.name == "__init__.py"
    if is_package:
        yield Package(module_name(source.path))
    if is_interesting(source.name, source.text):
        yield from _Walk(source, _parse(source), is_package).facts


def _parse(source: Source) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):
            try:
                return ast.parse(source.text)
            except SyntaxError:  # of a newer Python than this one, perhaps
                return ast.parse(in_older_words(source.text))
    except SyntaxError as error:
        raise Unreadable(error.lineno or 1, f"it is not Python 3: {error.msg}") from None
    except ValueError as error:
        raise Unreadable(1, f"it is not Python 3: {error}") from None


class _Walk(Expressions):
    def __init__(self, source: Source, tree: ast.Module, is_package: bool) -> None:
        name = module_name(source.path)
        super().__init__(source.path, name)
        self._package = name if is_package else name.rpartition(".")[0]
        self._stars: list[str] = []
        self._returns: list[Value] = []
        self._walrus = ":=" in source.text
        frame = Frame(name, self._bound(tree.body), None)
        self._body(tree.body, frame, Scope(name))
        self.facts.append(Module(name, Place(source.path, 1), tuple(self._stars)))

    def _bound(self, body: Sequence[ast.stmt]) -> dict[str, str]:
        return bound_names(body, self._import_target, walrus=self._walrus)

    def _body(self, body: Sequence[ast.stmt], frame: Frame, scope: Scope) -> None:
        for statement in body:
            handler = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if handler is not None:
                scope = handler(statement, frame, scope) or scope
            else:
                self.parts(statement, frame, scope)

    def _import_target(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        above = self._package.split(".") if self._package else []
        kept = above[: len(above) - (node.level - 1)]
        return ".".join([*kept, node.module] if node.module else kept)

    def _import(self, node: ast.Import, frame: Frame, scope: Scope) -> None:
        for alias in node.names:
            here = alias.asname or alias.name.partition(".")[0]
            target = alias.name if alias.asname else here
            self.bind(frame.own(here), Name(target), node, scope)

    def _importfrom(self, node: ast.ImportFrom, frame: Frame, scope: Scope) -> None:
        target = self._import_target(node)
        for alias in node.names:
            if alias.name == "*":
                self._stars.append(target)
            else:
                self.bind(frame.own(alias.asname or alias.name), Name(f"{target}.{alias.name}"), node, scope)

    def _assign(self, node: ast.Assign, frame: Frame, scope: Scope) -> None:
        value = self.value(node.value, frame, scope)
        for target in node.targets:
            self.target(target, value, frame, scope)

    def _annassign(self, node: ast.AnnAssign, frame: Frame, scope: Scope) -> None:
        if node.value is not None:
            self.target(node.target, self.value(node.value, frame, scope), frame, scope)
        elif (typed := self.annotation(node.annotation, frame, scope)) != UNKNOWN:
            self.target(node.target, typed, frame, scope)

    def _augassign(self, node: ast.AugAssign, frame: Frame, scope: Scope) -> None:
        value = self.value(node.value, frame, scope)
        self.target(node.target, Operation("+=", (value,)), frame, scope)

    def _for(self, node: ast.For | ast.AsyncFor, frame: Frame, scope: Scope) -> None:
        self.value(node.iter, frame, scope)
        self.target(node.target, UNKNOWN, frame, scope)
        self._body(node.body, frame, scope._replace(loop=True))
        self._body(node.orelse, frame, scope)

    _asyncfor = _for

    def _while(self, node: ast.While, frame: Frame, scope: Scope) -> None:
        looping = scope._replace(loop=True)
        test = self.value(node.test, frame, looping)
        self._body(node.body, frame, looping._replace(tests=(*scope.tests, test)))
        self._body(node.orelse, frame, scope)

    def _if(self, node: ast.If, frame: Frame, scope: Scope) -> Scope | None:
        test = self.value(node.test, frame, scope)
        main = scope.main or test == Operation("==", (Name("__name__"), Const("__main__")))
        self._body(node.body, frame, scope._replace(tests=(*scope.tests, test), main=main))
        otherwise = scope._replace(tests=(*scope.tests, opposite(test)))
        self._body(node.orelse, frame, otherwise)
        return otherwise if self._leaves(node.body, frame) and not node.orelse else None

    def _leaves(self, body: Sequence[ast.stmt], frame: Frame) -> bool:
        last = body[-1]
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
            function = last.value.func
            return isinstance(function, ast.Name | ast.Attribute) and self.dotted(function, frame) in _LEAVING
        return isinstance(last, _LEAVES)

    def _with(self, node: ast.With | ast.AsyncWith, frame: Frame, scope: Scope) -> None:
        for item in node.items:
            value = self.value(item.context_expr, frame, scope)
            if item.optional_vars is not None:
                self.target(item.optional_vars, value, frame, scope)
            scope = scope._replace(contexts=(*scope.contexts, value))
        self._body(node.body, frame, scope)

    _asyncwith = _with

    def _try(self, node: "ast.Try | ast.TryStar", frame: Frame, scope: Scope) -> None:
        caught: list[Value] = []
        for handler in node.handlers:
            kinds = Name("BaseException") if handler.type is None else self.value(handler.type, frame, scope)
            caught += kinds.values if isinstance(kinds, Items) else [kinds]
        self._body(node.body, frame, scope._replace(caught=(*scope.caught, *caught)))
        self._body(node.orelse, frame, scope)
        for body in (*(handler.body for handler in node.handlers), node.finalbody):
            self._body(body, frame, scope)

    _trystar = _try

    def _match(self, node: ast.Match, frame: Frame, scope: Scope) -> None:
        self.value(node.subject, frame, scope)
        for case in node.cases:
            self._body(case.body, frame, scope._replace(tests=(*scope.tests, UNKNOWN)))

    def _return(self, node: ast.Return, frame: Frame, scope: Scope) -> None:
        self._returns.append(Const(None) if node.value is None else self.value(node.value, frame, scope))

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, frame: Frame, scope: Scope) -> None:
        decorators = tuple(self.value(each, frame, scope) for each in node.decorator_list)
        name = frame.own(node.name)
        is_method = frame.is_class and Name("staticmethod") not in decorators
        inner = Frame(f"{name}.<locals>", self._bound(node.body), frame)
        parameters = self.parameters(node.args, inner, frame, scope)
        if is_method and parameters:
            inner.stand_for(parameters[0].short, frame.prefix)
        annotation = self.annotation(node.returns, frame, scope)
        outer, self._returns, self._yields = (self._returns, self._yields), [], []
        self._body(node.body, inner, Scope(self._module, name))
        is_async = isinstance(node, ast.AsyncFunctionDef)
        returns, yields = tuple(self._returns), tuple(self._yields)
        self._returns, self._yields = outer
        place = self.place(node)
        self.facts.append(
            Function(name, place, decorators, is_async, parameters, returns, annotation, yields, scope, is_method)
        )

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef, frame: Frame, scope: Scope) -> None:
        name = frame.own(node.name)
        bases = tuple(self.value(each, frame, scope) for each in node.bases)
        decorators = tuple(self.value(each, frame, scope) for each in node.decorator_list)
        if bases:
            self._bases[name] = bases[0]
        self.facts.append(Class(name, bases, decorators, self.place(node), scope))
        inner = Frame(name, self._bound(node.body), frame, is_class=True)
        self._body(node.body, inner, scope)
