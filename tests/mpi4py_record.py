"""mpi4py_record.py RECORD [--cuda] MAIN [ARGUMENT...]: runs mpi4py's test/main.py with its arguments and writes each
test's outcome and seconds, a line `module.Class.test outcome seconds`, into the file RECORD.RANK.

--cuda loads the CUDA driver first, as a program that uses a GPU would: from then on stridec looks at every buffer.
"""
import ctypes
import os
import runpy
import sys
import time
import unittest

# What each launcher calls the rank.
RANK = next((os.environ[n] for n in ("OMPI_COMM_WORLD_RANK", "PMI_RANK") if n in os.environ), "0")


class Recorder(unittest.TextTestResult):
    record = None

    def startTest(self, test):
        self.outcome, self.started = "ok", time.monotonic()
        print(test.id(), "", end="", file=self.record, flush=True)
        super().startTest(test)

    def stopTest(self, test):
        print(self.outcome, f"{time.monotonic() - self.started:.2f}", file=self.record, flush=True)
        super().stopTest(test)

    def addError(self, test, err):
        self.outcome = "error"
        super().addError(test, err)

    def addFailure(self, test, err):
        self.outcome = "failed"
        super().addFailure(test, err)

    def addSubTest(self, test, subtest, err):
        self.outcome = "failed" if err else self.outcome
        super().addSubTest(test, subtest, err)

    def addSkip(self, test, reason):
        self.outcome = "skipped"
        super().addSkip(test, reason)


def main():
    record, rest = sys.argv[1], sys.argv[2:]
    if rest[0] == "--cuda":
        driver = ctypes.CDLL("libcuda.so.1")
        assert driver.cuInit(0) == 0
        del rest[0]
    with open(f"{record}.{RANK}", "w") as Recorder.record:
        unittest.TextTestRunner.resultclass = Recorder
        sys.argv = rest
        sys.path.insert(0, os.path.dirname(os.path.abspath(rest[0])))
        runpy.run_path(rest[0], run_name="__main__")


main()
