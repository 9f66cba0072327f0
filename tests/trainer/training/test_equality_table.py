"""One cell of each row and of each column of the table that `make equality` makes."""

import ast

import pytest

from tests.equality.__main__ import difference, equal
from tests.equality.columns import COLUMNS, FOLDER, PROGRAM, Column, train

pytestmark = pytest.mark.trainer


def kinds() -> list[str]:
    """The rows: the keys of KINDS in the program, which trains when it is imported."""
    tree = ast.parse((FOLDER / PROGRAM).read_text())
    (found,) = (
        each.value
        for each in tree.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id == "KINDS"
    )
    assert isinstance(found, ast.Dict)
    return [str(ast.literal_eval(key)) for key in found.keys if key is not None]


@pytest.mark.parametrize(("number", "column"), list(enumerate(COLUMNS)), ids=[column.name for column in COLUMNS])
def test_each_kind_of_loss_and_each_way_to_divide_a_batch_train_as_keras_does(number: int, column: Column):
    chosen = kinds()[number :: len(COLUMNS)]
    assert chosen
    wanted, trained = train(column, *chosen)
    assert isinstance(trained, dict), trained
    cells = {kind: difference(wanted[kind], trained.get(kind)) for kind in chosen}
    assert all(equal(kind, cell) for kind, cell in cells.items()), cells
