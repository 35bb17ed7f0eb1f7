from __future__ import annotations

import importlib
import inspect
import pkgutil

import shoal

MOST = 60


def methods_of(cls: type) -> set[str]:
    """The methods of a class, those that it inherits from classes of this package too."""
    ours = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "shoal"]
    return {name for base in ours for name, item in vars(base).items() if is_method(item)}


def is_method(item: object) -> bool:
    return inspect.isfunction(item) or isinstance(item, classmethod | staticmethod | property)


def test_no_class_has_more_methods_than_a_reader_can_hold() -> None:
    counts: dict[str, int] = {}
    for info in pkgutil.walk_packages(shoal.__path__, "shoal."):
        if info.name == "shoal.__main__":
            continue
        module = importlib.import_module(info.name)
        for cls in vars(module).values():
            if inspect.isclass(cls) and cls.__module__ == module.__name__:
                counts[f"{module.__name__}.{cls.__qualname__}"] = len(methods_of(cls))
    assert len(counts) > 500
    assert {name: count for name, count in counts.items() if count > MOST} == {}
