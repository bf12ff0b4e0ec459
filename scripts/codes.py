"""Which error codes the source makes, found in its syntax: whatever string can arrive where a code is.

That is an argument, a field, a default, an attribute or a key of JSON that is called ``code``, wherever it
stands. From there the way back is followed: through variables, conditions, tables and what functions return,
and through parameters to everything that is ever passed to them. So a code needs no list to be found.
"""

from __future__ import annotations

import ast
import gc
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_CODE = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Found(NamedTuple):
    """A code, and where in the source it is made."""

    code: str
    place: str


class _Place(NamedTuple):
    """An expression, with all that its names may mean."""

    node: ast.expr
    inside: Function | None
    module: _Module


class _Module:
    """A file's syntax, and where in it names get their values."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name = name
        self.tree = tree
        self.within: dict[ast.AST, Function | None] = {}
        self.functions: dict[str, list[Function]] = defaultdict(list)
        self.bound: dict[tuple[Function | None, str], list[tuple[ast.expr, Sequence[int]]]] = defaultdict(
            list
        )
        self._look(tree, None)

    def _look(self, node: ast.AST, inside: Function | None) -> None:
        for child in ast.iter_child_nodes(node):
            self.within[child] = inside
            if isinstance(child, Function):
                self.functions[child.name].append(child)
            self._bind(child, inside)
            self._look(child, child if isinstance(child, Function) else inside)

    def _bind(self, node: ast.AST, inside: Function | None) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._take(target, node.value, (), inside)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
            self._take(node.target, node.value, (), inside)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._take(node.target, node.iter, (_EACH,), inside)

    def _take(self, target: ast.expr, value: ast.expr, way: tuple[int, ...], inside: Function | None) -> None:
        if isinstance(target, ast.Name):
            self.bound[inside, target.id].append((value, way))
        elif isinstance(target, ast.Tuple):
            for at, each in enumerate(target.elts):
                self._take(each, value, (*way, at), inside)


_EACH = -1
"""A step of a way into a value: any of its elements. Others are an element's number."""


class _Source:
    def __init__(self, modules: Sequence[_Module]) -> None:
        self._modules = modules
        self._found: set[Found] = set()
        self._seen: set[tuple[int, tuple[int, ...]]] = set()
        self._calls: dict[str, list[tuple[ast.Call, _Module]]] = defaultdict(list)
        self._classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        for module in modules:
            for node in module.within:
                if isinstance(node, ast.Call) and (name := _called(node)):
                    self._calls[name].append((node, module))
                elif isinstance(node, ast.ClassDef):
                    self._classes[node.name].append(node)

    def codes(self) -> set[Found]:
        for module in self._modules:
            for node in module.within:
                for expression in (*_codes_at(node), *self._positional(node)):
                    self._follow(_Place(expression, module.within.get(node), module), ())
                if isinstance(node, Function) and "code" in _parameters(node):
                    self._given(node, "code", module, ())
        return self._found

    def _positional(self, node: ast.AST) -> Iterator[ast.expr]:
        """Yield what is given without its name for a field ``code`` of a class without ``__init__``."""
        if isinstance(node, ast.Call):
            for fields in map(_fields, self._classes.get(_called(node), ())):
                if "code" in fields[: len(node.args)]:
                    yield node.args[fields.index("code")]

    def _follow(self, place: _Place, way: tuple[int, ...]) -> None:
        if (id(place.node), way) in self._seen:
            return
        self._seen.add((id(place.node), way))
        match place.node:
            case ast.Constant(value=str(text)) if not way and _CODE.fullmatch(text):
                self._found.add(Found(text, f"{place.module.name}:{place.node.lineno}"))
            case ast.IfExp(body=one, orelse=other):
                self._all((one, other), place, way)
            case ast.BoolOp(values=values):
                self._all(values, place, way)
            case ast.NamedExpr(value=value) | ast.Await(value=value):
                self._all((value,), place, way)
            case ast.Tuple() | ast.List() | ast.Set() | ast.Dict() if way:
                self._all(_elements(place.node, way[0]), place, way[1:])
            case ast.Subscript(value=value):
                self._all((value,), place, (_EACH, *way))
            case ast.Name(id=name):
                self._name(name, place, way)
            case ast.Call():
                self._call(place.node, place, way)
            case _:
                pass

    def _all(self, nodes: Iterable[ast.expr], place: _Place, way: tuple[int, ...]) -> None:
        for node in nodes:
            self._follow(place._replace(node=node), way)

    def _name(self, name: str, place: _Place, way: tuple[int, ...]) -> None:
        module, inside = place.module, place.inside
        while True:
            for value, further in module.bound.get((inside, name), ()):
                self._follow(_Place(value, inside, module), (*further, *way))
            if inside is None:
                break
            if name in _parameters(inside):
                self._given(inside, name, module, way)
            inside = module.within.get(inside)

    def _given(self, function: Function, name: str, module: _Module, way: tuple[int, ...]) -> None:
        """Follow everything that is passed for a parameter."""
        positional = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        owned = positional[:1] in (["self"], ["cls"])
        at = positional.index(name) - owned if name in positional else None
        names = [function.name]
        if function.name == "__init__":
            names = [
                each
                for each, nodes in self._classes.items()
                for node in nodes
                if self._begins(node, function)
            ]
        for called in names:
            for call, where in self._calls.get(called, ()):
                if function.name.startswith("_") and function.name != "__init__" and where is not module:
                    continue
                given = [each.value for each in call.keywords if each.arg == name]
                given += call.args[at : at + 1] if at is not None else []
                for value in given:
                    self._follow(_Place(value, where.within.get(call), where), way)

    def _begins(self, node: ast.ClassDef, function: Function) -> bool:
        """Tell whether a class is made by this ``__init__``, its own or its nearest base's."""
        own = [each for each in node.body if isinstance(each, Function) and each.name == "__init__"]
        if own:
            return function in own
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
        return any(self._begins(each, function) for base in bases for each in self._classes.get(base, ()))

    def _call(self, call: ast.Call, place: _Place, way: tuple[int, ...]) -> None:
        """Follow what a call returns: of a table's methods, of a function of the same file."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"get", "pop"}:
            self._all((call.func.value,), place, (_EACH, *way))
            self._all(call.args[1:2], place, way)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in {"items", "values"}:
            # The elements of items() are pairs, of which a key is no code.
            inner = way[:1] + way[2:] if call.func.attr == "items" and way[1:2] != (0,) else way
            self._all((call.func.value,), place, inner)
        else:
            for function in place.module.functions.get(_called(call), ()):
                for node in ast.walk(function):
                    if isinstance(node, ast.Return) and node.value:
                        self._follow(_Place(node.value, place.module.within.get(node), place.module), way)


def _codes_at(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of a node that are codes."""
    match node:
        case ast.Call(keywords=keywords):
            yield from (each.value for each in keywords if each.arg == "code")
        case ast.Assign(targets=targets, value=value):
            if any(_is_code(target) for target in targets):
                yield value
            if isinstance(value, ast.Subscript) and any(
                isinstance(target, ast.Name) and target.id.endswith("Code") for target in targets
            ):
                yield from _literals(value)
        case ast.AnnAssign(target=target, value=ast.expr() as value) if _is_code(target):
            yield value
        case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
            yield from _defaults(args)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "code":
                    yield value
        case _:
            pass


def _is_code(target: ast.expr) -> bool:
    name = (
        target.id
        if isinstance(target, ast.Name)
        else target.attr
        if isinstance(target, ast.Attribute)
        else ""
    )
    return name == "code"


def _literals(value: ast.Subscript) -> list[ast.expr]:
    return value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]


def _parameters(function: Function) -> list[str]:
    args = function.args
    return [each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs)]


def _defaults(args: ast.arguments) -> Iterator[ast.expr]:
    positional = [*args.posonlyargs, *args.args]
    for given, default in zip(reversed(positional), reversed(args.defaults), strict=False):
        if given.arg == "code":
            yield default
    for given, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        if given.arg == "code" and default:
            yield default


def _fields(node: ast.ClassDef) -> list[str]:
    """Return the fields of a class in their order; none where it has an ``__init__``."""
    if any(isinstance(each, Function) and each.name == "__init__" for each in node.body):
        return []
    return [
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _elements(node: ast.Tuple | ast.List | ast.Set | ast.Dict, at: int) -> Sequence[ast.expr]:
    if isinstance(node, ast.Dict):
        return node.values
    return node.elts if at == _EACH else node.elts[at : at + 1]


# Parts whose ``code`` is another's: errors of providers and forges that are imitated.
_FOREIGN = (
    "kakite/cli/agent/demo/project/",
    "kakite_testing/fake_providers/",
    "kakite_testing/forges/github.py",
    "kakite_testing/forges/gitlab.py",
)


def codes(*sources: Path) -> Mapping[str, str]:
    """Return every code that files below folders make, with the first place of each as ``file:line``."""
    was_on = gc.isenabled()
    gc.disable()  # the trees are millions of objects that stay: to look through them doubles the time
    try:
        return _find(sources)
    finally:
        if was_on:
            gc.enable()


def _find(sources: Iterable[Path]) -> Mapping[str, str]:
    modules = [
        _Module(name, ast.parse(file.read_text(encoding="utf-8")))
        for source in sources
        for file in sorted(source.glob("**/*.py"))
        if not (name := file.relative_to(source).as_posix()).startswith(_FOREIGN)
    ]
    return {each.code: each.place for each in sorted(_Source(modules).codes(), reverse=True)}
