"""
Defines the exit statuses of the commands. A status tells who can fix a failure.

| status | who can fix it |
|---|---|
| 0 | success |
| 1 | the user: the input is refused, or a check found something |
| 2 | the user: the command line |
| 3 | the machine's owner: a full disk, memory, files that may not be read or written |
| 4 | the machine's owner: the device or its driver |
| 70 | the authors of xdsl-spirv |
| 130, 143 | interrupted (Ctrl-C), terminated (SIGTERM) |
| 141 | not a failure: the reader of the output stopped early (`| head`) |
"""

from __future__ import annotations

import errno

REFUSED, USAGE, ENVIRONMENT, DEVICE, OURSELVES = 1, 2, 3, 4, 70
INTERRUPTED, CLOSED, TERMINATED = 130, 141, 143

REMEDIES = {
    errno.ENOENT: (REFUSED, "give the name of an existing file"),
    errno.ENOTDIR: (REFUSED, "give the name of an existing file"),
    errno.EISDIR: (REFUSED, "name a file"),
    errno.EACCES: (ENVIRONMENT, "change its permissions, or give the name of another file"),
    errno.EPERM: (ENVIRONMENT, "change its permissions, or give the name of another file"),
    errno.EROFS: (ENVIRONMENT, "use another folder"),
    errno.ENOSPC: (ENVIRONMENT, "free some space, or use another folder"),
    errno.EDQUOT: (ENVIRONMENT, "free some space, or use another folder"),
    errno.EMFILE: (ENVIRONMENT, "raise the limit of open files (ulimit -n)"),
    errno.ENOMEM: (ENVIRONMENT, "use smaller inputs"),
}
"""Maps an error number of the operating system to the exit status and the remedy."""


def of_the_system(error: OSError) -> tuple[int, str]:
    """Returns the exit status and the remedy for an error of the operating system."""
    return REMEDIES.get(error.errno or 0, (ENVIRONMENT, "look up the system's message"))
