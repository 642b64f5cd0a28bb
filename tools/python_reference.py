"""The Python reference: signature, docstring, fields and methods of every public name, as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from importlib import import_module
from typing import Any

import p3iv

WIDTH = 100
GROUPS = {
    "Plan": ("p3iv.planner", "p3iv.plans.conditions", "p3iv.plans.distribution"),
    "Datasets": ("p3iv.api.datasets", "p3iv.api.features", "p3iv.api.annotations"),
    "Train, evaluate and export": ("p3iv.api.runs", "p3iv.api.following", "p3iv.api.exporting"),
    "Progress and errors": ("p3iv.types", "p3iv.errors"),
}
_SECTION = re.compile(r"(?m)^(Args|Returns|Yields|Raises|Example):\n((?:(?: {4}.*)?(?:\n|\Z))+)")
_FACTORY = re.compile(r" = [Ff]ield\([^)]*\)")  # how a field is checked or made; what it is stands before
_ITEM = re.compile(r"(?m)^(\w+): ((?:.*)(?:\n {4}.*)*)")


def python_reference() -> str:
    """All public names, group by group, then the classes of what the functions return."""
    parts = []
    for title, modules in GROUPS.items():
        names = [name for module in modules for name in sorted(public_names(module), key=_first_line)]
        parts += [f"## {title}", *(entry(name, getattr(p3iv, name)) for name in names)]
    return "\n\n".join([*parts, "## Results", *(class_entry(kind.__name__, kind) for kind in result_classes())])


def _first_line(name: str) -> int:
    """Where its module defines a public name."""
    return inspect.getsourcelines(getattr(p3iv, name))[1]


def public_names(*modules: str) -> list[str]:
    """The public names that these modules define; all of them without arguments."""
    return [name for name in p3iv.__all__ if not modules or getattr(p3iv, name).__module__ in modules]


def entry(name: str, value: Any) -> str:
    """The heading and the text of one public name."""
    if not inspect.isclass(value):
        return function_entry("###", f"p3iv.{name}", value)
    members = dict(methods_of(value))
    texts = [function_entry("####", f"{name}.{each}", method) for each, method in members.items()]
    return "\n\n".join([class_entry(f"p3iv.{name}", value), *texts])


def class_entry(title: str, kind: type) -> str:
    """The docstring, the fields and the properties of a class."""
    fields = "\n".join(fields_of(kind))
    parts = [f"### {title}", markdown(inspect.getdoc(kind) or ""), f"```python\n{fields}\n```" if fields else ""]
    properties = [f"- `{name}`: {first_line(value)}" for name, value in properties_of(kind)]
    return "\n\n".join(filter(None, [*parts, "\n".join(properties)]))


def function_entry(level: str, title: str, function: Callable[..., Any]) -> str:
    """The signature and the docstring of a function or a method."""
    shown = f"```python\n{signature(title, function)}\n```"
    return "\n\n".join([f"{level} {title}", shown, markdown(inspect.getdoc(function) or "")])


def signature(title: str, function: Callable[..., Any]) -> str:
    """How it is called, on one line or with a line per parameter."""
    known = inspect.signature(function)
    parameters = [text for each in known.parameters.values() for text in _parameter(each, known)]
    end = f") -> {annotation(known.return_annotation)}"
    line = f"{title}({', '.join(parameters)}{end}"
    return line if len(line) <= WIDTH else "\n".join([f"{title}(", *(f"    {each}," for each in parameters), end])


def _parameter(parameter: inspect.Parameter, known: inspect.Signature) -> Iterator[str]:
    """A parameter, after the star if it is the first that is passed by name only."""
    kinds = list(known.parameters.values())
    before = kinds[kinds.index(parameter) - 1].kind if parameter != kinds[0] else None
    if parameter.kind is parameter.KEYWORD_ONLY and before not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL):
        yield "*"
    is_list, is_dict = parameter.kind is parameter.VAR_POSITIONAL, parameter.kind is parameter.VAR_KEYWORD
    stars = "**" if is_dict else "*" if is_list else ""
    default = "" if parameter.default is parameter.empty else f" = {_shown(parameter.default)}"
    if parameter.name != "self":
        yield f"{stars}{parameter.name}: {annotation(parameter.annotation)}{default}"


def _shown(default: object) -> str:
    if inspect.isroutine(default):
        return f"{str(default.__module__).lstrip('_')}.{default.__name__}"
    return f'"{default}"' if isinstance(default, str) else repr(default)


def annotation(value: Any) -> str:
    """A type as it is written in the source."""
    return value.replace("'", '"') if isinstance(value, str) else inspect.formatannotation(value)


def markdown(doc: str) -> str:
    """A docstring: its text, lists of arguments and errors, and the example as code that can be copied."""
    parts = [_SECTION.split(doc)[0].strip()]
    for title, body in _SECTION.findall(doc):
        text = textwrap.dedent(body).strip()
        if title == "Example":
            parts.append(f"Example:\n\n```python\n{without_prompts(text)}\n```")
        elif items := _ITEM.findall(text) if title != "Returns" else []:
            parts.append(f"{title}:\n\n" + "\n".join(f"- `{name}`: {_joined(about)}" for name, about in items))
        else:
            parts.append(f"{title}: {_joined(text)}")
    return "\n\n".join(parts)


def examples(doc: str) -> list[str]:
    """The examples of a docstring, as they are written."""
    return [textwrap.dedent(body).strip() for title, body in _SECTION.findall(doc) if title == "Example"]


def without_prompts(example: str) -> str:
    """An example without >>>, and with what it prints as comments."""
    if ">>>" not in example:
        return example
    lines: list[str] = []
    for line in filter(None, example.splitlines()):
        if line.startswith(">>>") and lines and lines[-1].startswith("    "):
            lines.append("")  # after the body of a function
        lines.append(line[4:] if line[:3] in (">>>", "...") else f"# {line}")
    return "\n".join(lines)


def _joined(text: str) -> str:
    return " ".join(text.split())


def first_line(value: object) -> str:
    """The docstring of a property, which is one line."""
    return _joined(inspect.getdoc(value) or "")


def members_of(kind: type) -> Iterator[tuple[str, object]]:
    """What a class and those of this package that it inherits from define, from the first of them on."""
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("p3iv."):
            yield from vars(each).items()


def methods_of(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods that a class of ours defines or inherits, in the order of the source."""
    for name, value in members_of(kind):
        if not name.startswith("_") and isinstance(value, classmethod | staticmethod) | inspect.isfunction(value):
            yield name, getattr(kind, name)


def properties_of(kind: type) -> Iterator[tuple[str, object]]:
    """The public properties that a class of ours defines or inherits."""
    for name, value in members_of(kind):
        if not name.startswith("_") and isinstance(value, property):
            yield name, value


def fields_of(kind: type) -> list[str]:
    """The fields of a dataclass or model as the source has them, with their comments."""
    if not is_dataclass(kind) and not hasattr(kind, "model_fields"):
        return []
    source = textwrap.dedent(inspect.getsource(kind))
    (tree,) = ast.parse(source).body
    nodes = [node for node in getattr(tree, "body", []) if isinstance(node, ast.AnnAssign)]
    lines = source.splitlines()
    found = [textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])) for node in nodes]
    return [_FACTORY.sub("", field) for field in found if "# internal" not in field]


def result_classes(depth: int = 2) -> list[type]:
    """The classes of this package that public functions and methods return, and those of their fields."""
    functions = [getattr(p3iv, name) for name in public_names()]
    functions += [method for kind in functions if inspect.isclass(kind) for _, method in methods_of(kind)]
    waiting = [
        (annotation(inspect.signature(each).return_annotation), each.__module__)
        for each in functions
        if inspect.isroutine(each)
    ]
    public, found = [getattr(p3iv, name) for name in public_names()], list[type]()
    for _ in range(depth):
        new = [kind for text, module in waiting for kind in classes_in(text, module) if kind not in (*public, *found)]
        found += list(dict.fromkeys(new))
        waiting = [(field, kind.__module__) for kind in new for field in fields_of(kind)]
    return found


def classes_in(text: str, module: str) -> Iterator[type]:
    """The classes with fields that an annotation names, found where its module imports them."""
    for name in re.findall(r"\b[A-Z]\w+", text.partition("#")[0]):
        value = getattr(sys.modules[module], name, None) or _imported(name, module)
        if inspect.isclass(value) and value.__module__.startswith("p3iv.") and fields_of(value):
            yield value


def _imported(name: str, module: str) -> object:
    """A name that a module imports for type checkers only."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            return getattr(import_module(str(node.module)), name, None)
    return None
