"""The one changed line, and what the corpus says of its programs."""

import ast

import pytest

from tests.corpus import table
from tests.corpus.catalogue import PROGRAMS, programs
from tests.corpus.one_line import one_line


def test_each_fit_is_given_its_model_and_the_rest_stays():
    plain = '"""A program."""\nimport os\nimport keras\n\nh = model.fit(x, y)\nmodels[0].fit(\n    data)\n'
    assert one_line(plain) == (
        '"""A program."""\nimport os\nimport keras\nimport dtj\n\ndtj.init()\n\n'
        "h = dtj.fit(model, x, y)\ndtj.fit(models[0], \n    data)\n"
    )


def test_characters_outside_of_ascii_and_nested_calls_move_nothing():
    plain = "import keras\nprint('é', model.fit(make('ü').get(x)))\nself.model.fit()\n"
    assert one_line(plain).endswith("print('é', dtj.fit(model, make('ü').get(x)))\ndtj.fit(self.model)\n")


@pytest.mark.parametrize("program", programs(), ids=lambda program: program.name)
def test_a_program_says_what_it_is_is_plain_and_becomes_valid(program):
    text = program.path.read_text()
    assert program.summary
    assert "dtj.init" not in text
    assert program.own_form or ".fit(" in text
    assert program.band is None or 0 < program.band <= 0.5
    assert bool(program.band) == bool(program.reason) == bool(program.control)
    assert all(old in text for old, _ in program.control)
    ast.parse(one_line(text))


def test_names_of_programs_are_unique_and_there_are_enough():
    names = [program.name for program in programs()]
    assert len(names) == len(set(names))
    assert len(names) >= 50


def test_a_name_that_nobody_has_is_refused():
    with pytest.raises(ValueError, match=f"no program or family nothing; see {PROGRAMS.name}/"):
        programs(["nothing", "text"])


def test_the_page_of_the_docs_has_the_table_that_make_generate_writes():
    assert table.PAGE.read_text() == table.page()
