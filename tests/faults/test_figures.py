"""The file that `make faults` leaves for machines."""

from __future__ import annotations

from tests.faults.__main__ import document, figures
from tests.faults.fault_plans import Disturbance, Plan, Result
from tests.faults.workloads import WORKLOADS

PLAN = Plan(WORKLOADS[0], Disturbance.CRASH_BEFORE, 1)


def test_it_says_what_went_wrong_on_each_server_and_in_all():
    fine = Result(PLAN, "POST pods")
    wrong = Result(PLAN, "POST pods", differences=("a", "b"), double_pods=("c",), lost_charges=("d",))
    said = document({"in_process": figures([fine, wrong], 1.0), "real": figures([wrong], 1.0)})
    of_interest = ("plans", "differing_end_states", "double_pods", "lost_charges")
    assert [said[name] for name in of_interest] == [3, 2, 2, 2]
    assert [said["in_process"][name] for name in of_interest] == [2, 1, 1, 1]
    assert [said["real"][name] for name in of_interest] == [1, 1, 1, 1]
