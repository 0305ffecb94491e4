"""What an interactive shell does for a job: a session with a terminal, and the job's group in its foreground.

Run as a script with the job's command; its stdin is the terminal. It says on a pipe when the job has ended.
"""

import fcntl
import os
import signal
import sys
import termios


def main(say: int, command: list[str]) -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.posix_spawn(command[0], command, os.environ, setpgroup=0, setsigdef=[signal.SIGTTOU])
    os.tcsetpgrp(0, job)
    _, status = os.waitpid(job, 0)
    os.write(say, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
