"""
The status with which a command's process ends says whose a failure is.

| status | who can mend it |
|---|---|
| 0 | success |
| 1 | the user: the input is refused, or a check found something |
| 2 | the user: the command line |
| 3 | the machine's owner: a full disk, memory, files that may not be read or written |
| 4 | the machine's owner: the device or its driver |
| 70 | us |
| 130, 143 | interrupted (Ctrl-C), terminated (SIGTERM) |
| 141 | no failure: the reader of the output has read enough (`| head`) |
"""

from __future__ import annotations

import errno

REFUSED, USAGE, ENVIRONMENT, DEVICE, OURSELVES = 1, 2, 3, 4, 70
INTERRUPTED, CLOSED, TERMINATED = 130, 141, 143

REMEDIES = {
    errno.ENOENT: (REFUSED, "name one that is there"),
    errno.ENOTDIR: (REFUSED, "name one that is there"),
    errno.EISDIR: (REFUSED, "name a file"),
    errno.EACCES: (ENVIRONMENT, "change its permissions, or name another one"),
    errno.EPERM: (ENVIRONMENT, "change its permissions, or name another one"),
    errno.EROFS: (ENVIRONMENT, "name another place"),
    errno.ENOSPC: (ENVIRONMENT, "free some space, or name another place"),
    errno.EDQUOT: (ENVIRONMENT, "free some space, or name another place"),
    errno.EMFILE: (ENVIRONMENT, "raise the limit of open files (ulimit -n)"),
    errno.ENOMEM: (ENVIRONMENT, "use smaller inputs"),
}
"""For an error of the system: exit status, by who is at fault, and remedy."""


def of_the_system(error: OSError) -> tuple[int, str]:
    """Returns the exit status and the remedy for an error of the operating system."""
    return REMEDIES.get(error.errno or 0, (ENVIRONMENT, "see what the system says of it"))
