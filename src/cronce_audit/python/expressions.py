"""Which name means what where: a frame for each module, class and function."""

import ast
import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from cronce_audit.model import Place
from cronce_audit.python.facts import (
    UNKNOWN,
    Bound,
    Call,
    Called,
    Class,
    Const,
    Function,
    Items,
    Joined,
    Member,
    Module,
    Name,
    Operation,
    Package,
    Parameter,
    Scope,
    Table,
    Typed,
    Value,
)

_OWN_FRAME: Final = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
)  # fmt: skip
_ELSEWHERE: Final = "<elsewhere>"
"""What a name stands for that is `global` or `nonlocal`."""


class Frame:
    """The names of a module, class or function, and the frame around it."""

    def __init__(self, prefix: str, names: Mapping[str, str], outer: "Frame | None", *, is_class: bool = False) -> None:
        self.prefix: Final = prefix
        self.is_class: Final = is_class
        self._outer: Final = outer
        self._elsewhere: Final = {name: self._outside(name) for name, what in names.items() if what == _ELSEWHERE}
        self._names: Final = {name: what or self._inside(name) for name, what in names.items()} | self._elsewhere

    def _inside(self, name: str) -> str:
        return f"{self.prefix}.{name}" if self.prefix else name

    def _outside(self, name: str) -> str:
        return (self._outer.find(name) if self._outer is not None else None) or f"{self.module}.{name}"

    @property
    def module(self) -> str:
        return self.prefix if self._outer is None else self._outer.module

    @property
    def owner(self) -> str:
        """The class whose method this is; "" elsewhere."""
        return self._outer.prefix if self._outer is not None and self._outer.is_class else ""

    def own(self, name: str) -> str:
        """The name, in full, that is bound here. What is imported once is used by its real name, and yet bound."""
        return self._elsewhere.get(name) or self._inside(name)

    def add(self, name: str) -> str:
        self._names[name] = self._inside(name)
        return self._names[name]

    def stand_for(self, name: str, target: str) -> None:
        """`self` stands for its class: what it binds, the class has."""
        self._names[name] = target

    def find(self, name: str) -> str | None:
        """What a name means here. The names of a class are not seen by its methods."""
        if name in self._names:
            return self._names[name]
        outer = self._outer
        while outer is not None and outer.is_class and not self.is_class:
            outer = outer._outer
        return None if outer is None else outer.find(name)


def bound_names(
    body: Sequence[ast.stmt], target: Callable[[ast.ImportFrom], str], *, walrus: bool = True
) -> dict[str, str]:
    """The names that a body binds, each with what it is imported as; "" where it is bound otherwise, or twice. Where
    no walrus stands in the file, an expression that is only read binds nothing, and is not looked into."""
    found: dict[str, str] = {}
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        for name, what in _binds(node, target):
            if found.get(name) != _ELSEWHERE:
                found[name] = what if found.get(name, what) == what or what == _ELSEWHERE else ""
        if not isinstance(node, _OWN_FRAME):
            inside = ast.iter_child_nodes(node)
            stack += reversed([one for one in inside if walrus or not _is_read(one)])
    return found


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store)


def _binds(node: ast.AST, target: Callable[[ast.ImportFrom], str]) -> Iterable[tuple[str, str]]:
    """What one node binds, not those in it."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            return [(name, "")]
        case ast.Import(names=aliases):
            return [(alias.asname or _top(alias), alias.name if alias.asname else _top(alias)) for alias in aliases]
        case ast.ImportFrom(names=aliases):
            of = target(node)
            return [
                (alias.asname or alias.name, f"{of}.{alias.name}".removeprefix("."))
                for alias in aliases
                if alias.name != "*"
            ]
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return [(name, _ELSEWHERE) for name in names]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [(name, "")]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [(name, "")]
    return ()


def _top(alias: ast.alias) -> str:
    return alias.name.partition(".")[0]


Fact = Module | Package | Bound | Call | Function | Class
_BUILTINS: Final = frozenset(dir(builtins))
_OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.And: "and", ast.Or: "or", ast.Not: "not", ast.USub: "-", ast.UAdd: "+", ast.Invert: "~",
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.BitOr: "|", ast.BitAnd: "&", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>", ast.MatMult: "@",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_DEEPEST: Final = 60
"""Expressions inside expressions. What is nested deeper was written by a program, and would not cross to a process."""


@cache
def _handler(kind: str) -> str:
    return f"_value_{kind.lower()}"


class Expressions:
    """Reads the expressions of one module, and collects what they do."""

    def __init__(self, path: str, module: str) -> None:
        self._path = path
        self._module = module
        self._names: dict[str, Name] = {}
        self._depth = 0
        self._bases: dict[str, Value] = {}
        self._yields: list[Value] = []
        self.facts: list[Fact] = []

    def place(self, node: ast.AST) -> Place:
        return Place(self._path, node.lineno, node.col_offset + 1)  # type: ignore[attr-defined]

    def bind(self, name: str, value: Value, node: ast.AST, scope: Scope) -> None:
        self.facts.append(Bound(name, value, self.place(node), scope))

    def target(self, target: ast.expr, value: Value, frame: Frame, scope: Scope) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            known = value.values if isinstance(value, Items) and not value.splat else ()
            for number, each in enumerate(target.elts):
                inner = each.value if isinstance(each, ast.Starred) else each
                self.target(inner, known[number] if len(known) == len(target.elts) else UNKNOWN, frame, scope)
            return
        if isinstance(target, ast.Name):
            self.bind(frame.own(target.id), value, target, scope)
            return
        match self.value(target, frame, scope):
            case Name(dotted):
                self.bind(dotted, value, target, scope)
            case Operation("[]", (Name(dotted), _)):
                self.bind(f"{dotted}[?]", value, target, scope)

    def parts(self, node: ast.AST, frame: Frame, scope: Scope) -> None:
        """Whatever the statement is, the calls in it are made."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, frame, scope)

    def value(self, node: ast.expr, frame: Frame, scope: Scope) -> Value:
        handler = getattr(self, _handler(type(node).__name__), None)
        if self._depth == _DEEPEST:
            return UNKNOWN
        self._depth += 1
        value: Value = UNKNOWN
        if handler is None:
            self.parts(node, frame, scope)
        else:
            value = handler(node, frame, scope)
        self._depth -= 1
        return value

    def _values(self, nodes: Sequence[ast.expr], frame: Frame, scope: Scope) -> tuple[Value, ...]:
        return tuple(self.value(each, frame, scope) for each in nodes)

    def dotted(self, node: ast.expr, frame: Frame) -> str:
        """The name that an expression is, in full; "" where it is none."""
        if isinstance(node, ast.Name):
            return frame.find(node.id) or (node.id if node.id in _BUILTINS else f"{self._module}.{node.id}")
        if isinstance(node, ast.Attribute):
            of = self.dotted(node.value, frame)
            return of and f"{of}.{node.attr}"
        return ""

    def _value_constant(self, node: ast.Constant, _frame: Frame, _scope: Scope) -> Value:
        return Const(node.value) if not isinstance(node.value, complex | type(...)) else UNKNOWN

    def _value_name(self, node: ast.Name, frame: Frame, _scope: Scope) -> Value:
        return self._named("__name__" if node.id == "__name__" else self.dotted(node, frame))

    def _named(self, dotted: str) -> Name:
        """One object for each name: they are many, and cross to another process."""
        return self._names.setdefault(dotted, Name(dotted))

    def _value_attribute(self, node: ast.Attribute, frame: Frame, scope: Scope) -> Value:
        match self.value(node.value, frame, scope):
            case Name(dotted):
                return self._named(f"{dotted}.{node.attr}")
            case of:
                return Member(of, node.attr)

    def _value_subscript(self, node: ast.Subscript, frame: Frame, scope: Scope) -> Value:
        of = self.value(node.value, frame, scope)
        key = self.value(node.slice, frame, scope)
        if isinstance(key, Const) and isinstance(key.value, str | int) and isinstance(of, Name):
            return self._named(f"{of.dotted}[{key.value}]")
        return Operation("[]", (of, key))

    def _value_call(self, node: ast.Call, frame: Frame, scope: Scope) -> Value:
        function = self.value(node.func, frame, scope)
        if function == Name("super"):
            return Typed(self._bases[frame.owner]) if self._bases.get(frame.owner) else UNKNOWN
        plain = [each for each in node.args if not isinstance(each, ast.Starred)]
        named = [(each.arg, self.value(each.value, frame, scope)) for each in node.keywords]
        called = Called(
            function,
            self._values(plain, frame, scope),
            tuple((name, value) for name, value in named if name is not None),
            len(plain) < len(node.args) or any(name is None for name, _ in named),
            self.place(node),
        )
        self.facts.append(Call(called, scope))
        return called

    def _value_list(self, node: ast.List | ast.Tuple | ast.Set, frame: Frame, scope: Scope) -> Value:
        plain = [each for each in node.elts if not isinstance(each, ast.Starred)]
        return Items(self._values(plain, frame, scope), len(plain) < len(node.elts))

    _value_tuple = _value_set = _value_list

    def _value_dict(self, node: ast.Dict, frame: Frame, scope: Scope) -> Value:
        pairs = [
            (self.value(key, frame, scope), self.value(value, frame, scope))
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
        return Table(tuple(pairs), None in node.keys)

    def _value_joinedstr(self, node: ast.JoinedStr, frame: Frame, scope: Scope) -> Value:
        return Joined(self._values(node.values, frame, scope))

    def _value_formattedvalue(self, node: ast.FormattedValue, frame: Frame, scope: Scope) -> Value:
        value = self.value(node.value, frame, scope)
        match node.format_spec:
            case ast.JoinedStr(values=[ast.Constant(value=str(spec))]):
                return Operation("format", (value, Const(spec)))
        return value

    def _value_boolop(self, node: ast.BoolOp, frame: Frame, scope: Scope) -> Value:
        return Operation(_OPERATORS[type(node.op)], self._values(node.values, frame, scope))

    def _value_compare(self, node: ast.Compare, frame: Frame, scope: Scope) -> Value:
        operator = _OPERATORS[type(node.ops[0])] if len(node.ops) == 1 else "compare"
        return Operation(operator, self._values([node.left, *node.comparators], frame, scope))

    def _value_unaryop(self, node: ast.UnaryOp, frame: Frame, scope: Scope) -> Value:
        value = self.value(node.operand, frame, scope)
        if isinstance(node.op, ast.Not):
            return opposite(value)
        if isinstance(node.op, ast.USub) and isinstance(value, Const) and isinstance(value.value, int | float):
            return Const(-value.value)
        return Operation(_OPERATORS[type(node.op)], (value,))

    def _value_binop(self, node: ast.BinOp, frame: Frame, scope: Scope) -> Value:
        left, right = self.value(node.left, frame, scope), self.value(node.right, frame, scope)
        return _worked_out(_OPERATORS[type(node.op)], left, right)

    def _value_ifexp(self, node: ast.IfExp, frame: Frame, scope: Scope) -> Value:
        return Operation("if", self._values([node.test, node.body, node.orelse], frame, scope))

    def _value_await(self, node: ast.Await, frame: Frame, scope: Scope) -> Value:
        return self.value(node.value, frame, scope)

    def _value_namedexpr(self, node: ast.NamedExpr, frame: Frame, scope: Scope) -> Value:
        value = self.value(node.value, frame, scope)
        self.target(node.target, value, frame, scope)
        return value

    def _value_yield(self, node: ast.Yield, frame: Frame, scope: Scope) -> Value:
        self._yields.append(Const(None) if node.value is None else self.value(node.value, frame, scope))
        return UNKNOWN

    def _value_lambda(self, node: ast.Lambda, frame: Frame, scope: Scope) -> Value:
        name = f"{frame.prefix}.<lambda:{node.lineno}:{node.col_offset + 1}>"
        inner = Frame(f"{name}.<locals>", {}, frame)
        parameters = self.parameters(node.args, inner, frame, scope)
        returned = self.value(node.body, inner, Scope(self._module, name))
        self.facts.append(Function(name, self.place(node), parameters=parameters, returns=(returned,), scope=scope))
        return Name(name)

    def _value_listcomp(self, node: Any, frame: Frame, scope: Scope) -> Value:
        inner = Frame(f"{frame.prefix}.<loop:{node.lineno}:{node.col_offset + 1}>", {}, frame)
        scope = scope._replace(loop=True)
        for generator in node.generators:
            self.value(generator.iter, inner, scope)
            for each in ast.walk(generator.target):
                if isinstance(each, ast.Name):
                    inner.add(each.id)
            self._values(generator.ifs, inner, scope)
        self._values([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt], inner, scope)
        return UNKNOWN

    _value_setcomp = _value_generatorexp = _value_dictcomp = _value_listcomp

    def parameters(self, args: ast.arguments, inner: Frame, frame: Frame, scope: Scope) -> tuple[Parameter, ...]:
        positional = [*args.posonlyargs, *args.args]
        missing: list[ast.expr | None] = [None] * (len(positional) - len(args.defaults))
        found = []
        for each, default in zip(
            [*positional, *args.kwonlyargs], [*missing, *args.defaults, *args.kw_defaults], strict=True
        ):
            name = inner.add(each.arg)
            annotation = self.annotation(each.annotation, frame, scope)
            if annotation != UNKNOWN:
                self.bind(name, annotation, each, scope)
            found.append(Parameter(name, annotation, None if default is None else self.value(default, frame, scope)))
        for rest in (args.vararg, args.kwarg):
            if rest is not None:
                inner.add(rest.arg)
        return tuple(found)

    def annotation(self, node: ast.expr | None, frame: Frame, scope: Scope) -> Value:
        """Typed, or Unknown: `X`, `"X"`, `X | None`, `Optional[X]`, `Annotated[X, ...]`, `Generator[X, ...]`."""
        match node:
            case ast.Constant(value=str(text)):
                try:
                    inner = ast.parse(text.strip(), mode="eval").body
                except (SyntaxError, ValueError):
                    return UNKNOWN
                ast.copy_location(inner, node)
                return self.annotation(inner, frame, scope) if not isinstance(inner, ast.Constant) else UNKNOWN
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._either(left, right, frame, scope)
            case ast.Subscript(value=ast.Name(id=word) | ast.Attribute(attr=word), slice=index):
                if word in ("Optional", "Annotated", "Final", "ClassVar"):
                    first = index.elts[0] if isinstance(index, ast.Tuple) else index
                    return self.annotation(first, frame, scope)
                if word == "Union" and isinstance(index, ast.Tuple) and len(index.elts) == 2:
                    return self._either(index.elts[0], index.elts[1], frame, scope)
            case ast.Name() | ast.Attribute():
                dotted = self.dotted(node, frame)
                return Typed(Name(dotted)) if dotted else UNKNOWN
        return UNKNOWN

    def _either(self, left: ast.expr, right: ast.expr, frame: Frame, scope: Scope) -> Value:
        """X of `X | None`."""
        if isinstance(right, ast.Constant) and right.value is None:
            return self.annotation(left, frame, scope)
        if isinstance(left, ast.Constant) and left.value is None:
            return self.annotation(right, frame, scope)
        return UNKNOWN


def opposite(value: Value) -> Value:
    match value:
        case Operation("not", (inner,)):
            return inner
    return Operation("not", (value,))


def _worked_out(operator: str, left: Value, right: Value) -> Value:
    match left, operator, right:
        case Const(int(a) | float(a)), "*", Const(int(b) | float(b)) if abs(a) < 1e9 and abs(b) < 1e9:
            return Const(a * b)
        case Const(int(a) | float(a)), "+", Const(int(b) | float(b)):
            return Const(a + b)
        case Const(int(a) | float(a)), "-", Const(int(b) | float(b)):
            return Const(a - b)
        case Const(str(a)), "+", Const(str(b)):
            return Const(a + b)
    return Operation(operator, (left, right))
