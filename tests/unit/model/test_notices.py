"""Every notice and error that Holdfast writes into a log has a code that the table and the docs know."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from holdfast.model import notices
from holdfast.model.notices import NOTICES
from tests.support import paths

PACKAGE = paths.PROJECT / "src" / "holdfast"
OWN = (
    "runner",
    "store",
    "recovery",
    "spool",
    "transcripts/importer.py",
)  # the rest passes on what agents say


def modules() -> list[str]:
    folders = [PACKAGE / name for name in OWN]
    files = [file for path in folders for file in ([path] if path.suffix else path.rglob("*.py"))]
    return sorted(str(file.relative_to(PACKAGE)) for file in files)


@pytest.mark.parametrize("module", modules())
def test_the_table_knows_every_code(module: str) -> None:
    unknown = codes_in(PACKAGE / module, module) - {*NOTICES}
    assert not unknown, f"add {sorted(unknown)} to holdfast/model/notices.py"


def test_codes_are_found_where_they_are_written() -> None:
    found = set().union(*[codes_in(PACKAGE / module, module) for module in modules()])
    assert {"spool_lost", "survivors", "waiting", "not_launched", "trusted", "replayed", "drained"} <= found


def test_the_page_of_notices_is_what_the_table_says() -> None:
    assert (paths.PROJECT / "docs" / "notices.md").read_text() == notices.page(), "run `make docs`"


def codes_in(path: Path, module: str) -> set[str]:
    """Codes in bodies of events, and arguments called `code`, as far as they are constants."""
    names = vars(importlib.import_module("holdfast." + module.removesuffix(".py").replace("/", ".")))
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            body = {
                k.value: v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)
            }
            if {"code", "text"} <= {*body}:
                found |= value_of(body["code"], names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "_notice":
            found |= {
                code for argument in node.args for code in value_of(argument, names) if code.isidentifier()
            }
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for argument, default in zip(
                reversed(node.args.args), reversed(node.args.defaults), strict=False
            ):
                found |= value_of(default, names) if argument.arg == "code" else set()
    return found


def value_of(node: ast.expr, names: dict[str, object]) -> set[str]:
    if isinstance(node, ast.Constant):
        value: object = node.value
    elif isinstance(node, ast.Name):
        value = names.get(node.id)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        value = getattr(names.get(node.value.id), node.attr, None)
    elif isinstance(node, ast.IfExp):
        return value_of(node.body, names) | value_of(node.orelse, names)
    else:
        value = None
    return {value} if isinstance(value, str) else set()
