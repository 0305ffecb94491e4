"""What an interactive shell does for a job: a session with a terminal, and the job's group in its foreground.

Run as a script with the job's command; its stdin is the terminal. It says on a pipe when the job is stopped or has
ended, and continues a stopped one in the foreground when it reads a line.
"""

import fcntl
import os
import signal
import sys
import termios


def main(say: int, listen: int, command: list[str]) -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.posix_spawn(command[0], command, os.environ, setpgroup=0, setsigdef=[signal.SIGTTOU])
    os.tcsetpgrp(0, job)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        os.write(say, f"stopped {os.tcgetpgrp(0) == job}\n".encode())
        os.tcsetpgrp(0, os.getpgrp())
        os.read(listen, 100)
        os.tcsetpgrp(0, job)
        os.killpg(job, signal.SIGCONT)
    os.write(say, f"ended {os.waitstatus_to_exitcode(status)}\n".encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
