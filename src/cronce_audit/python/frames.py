"""Which name means what where: a frame for each module, class and function."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

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


def bound_names(body: Sequence[ast.stmt], target: Callable[[ast.ImportFrom], str]) -> dict[str, str]:
    """The names that a body binds, each with what it is imported as; "" where it is bound otherwise, or twice."""
    found: dict[str, str] = {}
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        for name, what in _binds(node, target):
            if found.get(name) != _ELSEWHERE:
                found[name] = what if found.get(name, what) == what or what == _ELSEWHERE else ""
        if not isinstance(node, _OWN_FRAME):
            stack += reversed(list(ast.iter_child_nodes(node)))
    return found


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
