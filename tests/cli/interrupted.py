"""An interrupt that was caught where Python keeps it in mind, and then a command: run as a program by `test_cli`."""

from cronce.cli import console

if __name__ == "__main__":
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        console()
