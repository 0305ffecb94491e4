"""An interrupt that was caught where Python keeps it in mind, and then a command: run by `test_main.py`."""

from cronce.cli import console

if __name__ == "__main__":
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        console()
