"""A process that supervises commands, and says on a pipe what became of them. Run as a script; expects to be killed.

It is told its steps as JSON, and while a command runs, by lines on another pipe: `stop WHY GRACE`, `deadline SECONDS`,
and `late SECONDS` for both to the command before. What it says last is whether it left anything behind.
"""

import atexit
import json
import os
import resource
import signal
import sys
import threading
from typing import Any

from cronce.clock import SystemClock
from cronce.errors import CannotStart
from cronce.integrations.command import FORWARDED, CommandSupervisor
from cronce.runtime.processes.child import Child, Ended, NotStarted

HANDLED = (*FORWARDED, signal.SIGCHLD, signal.SIGTSTP, signal.SIGTTOU)


class Script:
    def __init__(self, say: int, listen: int, plan: dict[str, Any]) -> None:
        self.mouth = say
        self.ear = os.fdopen(listen)
        self.plan = plan
        self.clock = SystemClock()
        self.children: list[Child] = []
        for fd in (say, listen):
            os.set_inheritable(fd, False)

    def say(self, **facts: object) -> None:
        os.write(self.mouth, (json.dumps(facts) + "\n").encode())

    def play(self) -> None:
        before = self.state()
        atexit.register(self.say, left=os.getpid())
        try:
            with CommandSupervisor(self.clock, self.plan["grace"]) as supervisor:
                supervisor.child(["true"], {})  # is never started, but has the watchdog started
                assert supervisor.watchdog is not None
                self.say(watchdog=supervisor.watchdog.pid)
                threading.Thread(target=self.listen, daemon=True).start()
                for step in self.plan["steps"]:
                    self.take(step, supervisor)
        finally:
            self.say(clean=self.state() == before)

    def take(self, step: dict[str, Any], supervisor: CommandSupervisor) -> None:
        match step:
            case {"run": command}:
                self.run(command, step, supervisor)
            case {"wait": seconds}:
                self.say(waiting=True)
                self.say(waited=supervisor.wait(seconds), interrupted=supervisor.interrupted)
            case {"raise": name}:
                os.kill(os.getpid(), signal.Signals[name])

    def run(self, command: list[str], step: dict[str, Any], supervisor: CommandSupervisor) -> None:
        env = {**os.environ, **step.get("env", {})}
        self.children.append(child := supervisor.child(command, env))
        if "deadline" in step:
            child.move_deadline(self.clock.boot() + step["deadline"])
        if "stop" in step:
            child.stop(step["stop"])
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            ended = child.run()
        except CannotStart as error:
            self.say(cannot=str(error), code=error.code)
            return
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        facts = {"interrupted": supervisor.interrupted, "grown": grown}
        match ended:
            case Ended():
                self.say(ended=ended._asdict(), **facts)
            case NotStarted():
                self.say(not_started=ended._asdict(), **facts)

    def listen(self) -> None:
        for line in self.ear:
            match line.split():
                case ["stop", why, grace]:
                    self.children[-1].stop(why, float(grace))
                case ["deadline", seconds]:
                    self.children[-1].move_deadline(self.clock.boot() + float(seconds))
                    self.say(moved=seconds)
                case ["late", seconds]:
                    self.children[-2].stop("too late to matter")
                    self.children[-2].move_deadline(self.clock.boot() + float(seconds))
                    self.say(moved=seconds)

    def state(self) -> tuple[object, ...]:
        """Handlers, blocked signals, open descriptors and children: what is to be the same afterwards."""
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        descriptors = {fd for fd in range(3, 1_000) if is_open(fd)}
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        return [signal.getsignal(number) for number in HANDLED], wakeup, mask, descriptors, children()


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def is_in_background() -> bool:
    """Whether a terminal is our input, and still the shell's."""
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:
        return False


def main(say: str, listen: str, plan: str) -> None:
    told = json.loads(plan)
    for number in FORWARDED:  # whoever runs the tests in the background may ignore some
        signal.signal(number, signal.SIG_IGN if number.name in told["ignored"] else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [signal.Signals[name] for name in told["blocked"]])
    while is_in_background():  # the shell may need a moment to give us the terminal
        pass
    Script(int(say), int(listen), told).play()


if __name__ == "__main__":
    main(*sys.argv[1:])
