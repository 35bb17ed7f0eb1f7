"""Imports mean what they say: what is loaded lazily is declared, and nothing else imports by name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import shoal

ROOT = Path(shoal.__file__).parent


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(ROOT.rglob("*.py")):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def dynamic_imports(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls of `import_module` that could load a module of this package: by its name, or by one that is computed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            name = node.args[0] if node.args else None
            is_foreign = isinstance(name, ast.Constant) and not str(name.value).startswith("shoal")
            if not is_foreign:
                yield node


def lazy_names(body: list[ast.stmt]) -> dict[str, str]:
    """Assignments `name = lazy("module")`."""
    out: dict[str, str] = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "lazy":
            out[ast.unparse(node.targets[0])] = ast.literal_eval(node.value.args[0])
    return out


def imported_names(body: list[ast.stmt]) -> dict[str, str]:
    """The modules that `from package import module` and `import module` bind."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


def test_only_the_lazy_loading_helper_imports_our_modules_by_name() -> None:
    places = [f"{path}:{call.lineno}" for path, tree in modules() for call in dynamic_imports(tree)]
    assert [place for place in places if not place.startswith("lazy.py:")] == []


def test_each_lazy_module_is_declared_to_the_type_checker_and_the_layer_rules() -> None:
    undeclared = []
    for path, tree in modules():
        calls = sum(isinstance(node, ast.Call) and ast.unparse(node.func) == "lazy" for node in ast.walk(tree))
        declared = 0
        for node in tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                imported = imported_names(node.body)
                for name, module in lazy_names(node.orelse).items():
                    assert imported.get(name) == module, f"{path}: {name} is typed as {imported.get(name)}"
                    declared += 1
        if calls != declared and path != "lazy.py":
            undeclared.append(path)
    assert undeclared == []


def test_no_function_imports_our_modules() -> None:
    hidden = [
        f"{path}:{node.lineno}"
        for path, tree in modules()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shoal")
    ]
    assert hidden == []
