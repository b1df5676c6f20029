"""results.py: for the tests in Python: runs stridec, and prints a line for each check."""
import subprocess
import sys


class Results:
    """Of the command at `stridec`; `failed` is whether a check did."""

    def __init__(self, stridec):
        self.stridec, self.failed = stridec, False

    def check(self, name, good, *details):
        """Prints whether the check is good, and the details if it is not."""
        print(("ok " if good else "not ok ") + name)
        if not good:
            self.failed = True
            for line in details:
                print("    " + str(line)[:300])

    def run(self, *arguments, **more):
        """Runs the command; returns its status and its output as bytes."""
        return subprocess.run([self.stridec, *arguments], capture_output=True, timeout=60, **more)

    def exit(self):
        """Ends the test."""
        sys.exit(self.failed)
