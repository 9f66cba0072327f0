"""The schedule of a training whose data may end at any batch."""

import warnings

import pytest

from dtj_trainer.training.open_schedule import Ahead, OpenSchedule
from dtj_trainer.training.schedule import Schedule


class Source:
    """Data of `size` batches, of which `drawn` more than asked for are there."""

    def __init__(self, size: int, drawn: int) -> None:
        self.size, self.drawn, self.looks = size, drawn, 0

    def look(self, number: int, batches: int) -> Ahead:
        self.looks += 1
        there = number + batches + self.drawn
        return Ahead(self.size - number, ended=True) if there >= self.size else Ahead(there - number, ended=False)


def trained(schedule: OpenSchedule) -> list[list[int]]:
    """The batches of the steps of each epoch, as the loop makes them."""
    epochs: list[list[int]] = [[]]
    step = 0
    while step < schedule.total:
        end = schedule.next_end(step)
        for each in range(step, end):
            epochs[-1].append(schedule.batches_of(each))
        step = end
        if schedule.ends_epoch(step):
            epochs.append([])
    return epochs[:-1]


@pytest.mark.parametrize("drawn", [0, 1, 5, 100])
@pytest.mark.parametrize(
    ("size", "arguments", "expected", "warned"),
    [
        (6, {}, [[1] * 6], False),
        (6, {"accumulate": 4}, [[4, 2]], False),
        (8, {"accumulate": 4}, [[4, 4]], False),
        (12, {"epochs": 3, "steps_per_epoch": 5}, [[1] * 5, [1] * 5, [1] * 2], True),
        (12, {"epochs": 4, "steps_per_epoch": 5, "accumulate": 3}, [[3, 2], [3, 2], [2]], True),
        (12, {"epochs": 2, "steps_per_epoch": 6}, [[1] * 6, [1] * 6], False),
        (99, {"epochs": 2, "steps_per_epoch": 6}, [[1] * 6, [1] * 6], False),
        (7, {"steps": 20, "epochs": None}, [[1] * 7], True),
        (7, {"steps": 5, "epochs": None}, [[1] * 5], False),
    ],
)
def test_each_epoch_has_its_batches_and_the_last_one_those_that_are_left(size, arguments, expected, warned, drawn):
    given = {"epochs": 1, "steps": None, "steps_per_epoch": None, **arguments}
    schedule = OpenSchedule(
        Schedule.of(batches_per_pass=None, passes_end=True, open_epochs=1, **given),
        Source(size, drawn).look,
        reads_once=True,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert trained(schedule) == expected
    told = f"x ended after {size} batches, and with it the training"
    assert [str(each.message).split(";")[0] for each in caught] == [told] * warned


@pytest.mark.parametrize("drawn", [0, 1, 5, 100])
@pytest.mark.parametrize(
    ("arguments", "expected", "warned"),
    [
        ({"epochs": 3, "steps_per_epoch": 4}, [[1] * 4, [1] * 2, [1] * 4], True),
        ({"epochs": 2, "steps_per_epoch": 9}, [[1] * 6, [1] * 6], True),
        ({"epochs": 2, "steps_per_epoch": 3}, [[1] * 3, [1] * 3], False),
        ({"epochs": 2}, [[1] * 6, [1] * 6], False),
        ({"epochs": 2, "accumulate": 4}, [[4, 2], [4, 2]], False),
    ],
)
def test_data_that_can_be_read_again_begins_again_after_an_epoch_that_is_short(arguments, expected, warned, drawn):
    given = {"steps": None, "steps_per_epoch": None, **arguments}
    schedule = OpenSchedule(
        Schedule.of(batches_per_pass=None, passes_end=True, open_epochs=9, **given),
        Source(6, drawn).look,
        reads_once=False,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert trained(schedule) == expected
    told = "x ended after 6 batches, and with it an epoch, so that it is short"
    assert [str(each.message).split(";")[0] for each in caught] == [told] * warned


@pytest.mark.parametrize(("batches", "step", "epoch"), [(3, 1, 0), (6, 2, 1), (10, 3, 1), (12, 4, 2)])
def test_a_resume_knows_its_epoch_once_the_first_pass_was_read_past(batches, step, epoch):
    arguments = Schedule.of(4, None, None, None, accumulate=4, passes_end=True, open_epochs=9)
    schedule = OpenSchedule(arguments, Source(6, 100).look, reads_once=False)
    schedule.resume(batches)
    assert schedule.total == 8
    assert schedule.epoch(step) == epoch


def test_what_was_seen_is_not_looked_at_again():
    source = Source(1_000, 50)
    schedule = OpenSchedule(Schedule.of(2, None, 100, None, passes_end=True), source.look, reads_once=True)
    trained(schedule)
    assert source.looks <= 5


def test_the_end_is_not_known_before_it_is_seen():
    schedule = Schedule.of(1, None, None, None, open_epochs=1)
    assert schedule.known_total is None
    assert schedule.ending_after(7).known_total == 7
