"""A loop of the program's own under dtj.session, until step 2000 or until it is asked to leave."""

import gc
import json
import math
import os
import sys
import time
from unittest import mock

import tensorflow as tf

import dtj
from dtj_trainer.ipc.commands import process_commands
from dtj_trainer.ipc.reporter import Reporter

ASKED_AT = int(os.environ.get("TEST_ASKED_AT", "0"))
ASKED_TO_LEAVE_AT = int(os.environ.get("TEST_ASKED_TO_LEAVE_AT", "0"))
STALLS_AT = int(os.environ.get("TEST_STALLS_AT", "0"))
NAN_AT = int(os.environ.get("TEST_NAN_AT", "0"))
REPORTS_EVERY = int(os.environ.get("TEST_REPORTS_EVERY", "1"))
steps_done = mock.patch.object(Reporter, "steps_done").start()

if "TEST_AGAIN" in os.environ:
    with dtj.session() as job:
        job.report(step=1)

with dtj.session() as job:
    weight = tf.Variable(1.0)
    made = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    begun = job.checkpoints.restore(weight=weight, made=made) or 0

    @tf.function
    def step() -> tf.Tensor:
        def one() -> tf.Tensor:
            change = dtj.all_reduce(weight * 0.01)
            weight.assign_sub(change)
            made.assign_add(1)
            return tf.identity(change)

        return job.strategy.experimental_local_results(job.strategy.run(one))[0]

    assert int(made.numpy()) == begun
    for number in range(begun + 1, begun + 1 + int(os.environ.get("TEST_STEPS", "2000"))):
        if number == ASKED_AT and job.index == job.input_context.num_input_pipelines - 1:  # as POST /checkpoint does
            process_commands().checkpoint_wanted.set()
        if number == ASKED_TO_LEAVE_AT and not job.is_chief:
            process_commands().preempted.set()
        if number == STALLS_AT and job.is_chief:
            time.sleep(2.5)
        loss = step()
        if number == STALLS_AT and job.is_chief:
            time.sleep(0.1)
        if number % REPORTS_EVERY == 0:
            job.report(step=made.numpy(), loss=math.nan if number == NAN_AT else loss)
        time.sleep(0.005)
        if number == begun + 1:
            sys.stdout.write(f"SAY {job.role} {job.index}\n")
            sys.stdout.flush()

told = {"begun": begun, "made": int(made.numpy()), "weight": float(weight.numpy()), "pipelines": 0}
told["reported"] = sum(call.args[0].steps for call in steps_done.call_args_list)
told["garbage"] = gc.get_threshold()[0]
told["pipelines"] = job.input_context.num_input_pipelines
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
