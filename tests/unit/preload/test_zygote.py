"""The zygote without what it imports."""

import select
import socket
import subprocess
import sys

PROGRAM = """
import sys, types
sys.modules["dtj_trainer.preload.imports"] = types.SimpleNamespace(preload=lambda ahead: None)
from dtj_trainer.preload import zygote
zygote.ReadAhead = lambda: None
zygote.main()
"""


def test_it_goes_without_a_word_when_its_supervisor_has_gone_and_had_not_heard_all():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-c", PROGRAM, str(theirs.fileno())]
        zygote = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.PIPE)
    with zygote:
        with ours:
            assert select.select([ours], [], [], 30)[0], "it never got ready"
        assert zygote.communicate(timeout=30)[1] == b""
        assert zygote.returncode == 0
