# SPDX-License-Identifier: Apache-2.0
"""Names that C allows."""

from __future__ import annotations

import re

from ..errors import Problem, UserError

# <name>.h is found before headers of the same name, which C, POSIX, Zephyr, newlib and the runtime
# include by it.
_HEADERS = (
    "aio assert complex cpio ctype dirent dlfcn endian errno fcntl fenv float fnmatch ftw getopt "
    "glob grp iconv inttypes iso646 langinfo libgen limits locale malloc math memory mqueue netdb "
    "newlib poll pthread pwd reent regex sched search semaphore setjmp signal soc spawn stdalign "
    "stdarg stdatomic stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string strings "
    "syslog termios tgmath threads time uchar ulimit unistd utime vmcu wchar wctype wordexp"
)


def hides_header(name: str) -> bool:
    """Whether <name>.h would be found in place of another header, in capital letters too where a
    file system does not tell them apart."""
    return name.lower() in _HEADERS.split()


def check_name(name: str) -> None:
    """Raises UserError for a name that C objects cannot begin with, or whose header would hide
    another."""
    if not re.fullmatch(r"[A-Za-z_]\w*", name, flags=re.ASCII):
        reason = f"'{name}' is not a C identifier"
    elif hides_header(name):
        reason = f"the header would be {name}.h, which hides another of that name"
    else:
        return
    raise UserError(Problem(reason, "choose another name with --name"))
