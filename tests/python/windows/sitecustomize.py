# SPDX-License-Identifier: Apache-2.0
"""Takes from Python what it lacks on Windows: test_windows_hosts.py starts commands with it.

Python imports a module of this name in front of any other.
"""

import importlib.abc
import os
import signal
import subprocess
import sys

FUNCTIONS = (
    "fork forkpty getegid geteuid getgid getpgid getuid killpg mkfifo sched_getaffinity setsid"
)
SIGNALS = (
    "SIGALRM SIGCHLD SIGHUP SIGKILL SIGPIPE SIGUSR1 alarm pthread_kill pthread_sigmask setitimer"
)
MODULES = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")

if hasattr(signal, "SIGKILL"):
    # Python's own code for Linux needs it.
    subprocess.Popen.kill = lambda self, number=signal.SIGKILL: self.send_signal(number)
for owner, names in ((os, FUNCTIONS), (signal, SIGNALS)):
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)


class _Without(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname in MODULES:
            raise ModuleNotFoundError(f"No module named '{fullname}'", name=fullname)


sys.meta_path.insert(0, _Without())
for name in MODULES:
    sys.modules.pop(name, None)
