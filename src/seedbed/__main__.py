"""`python -m seedbed` is the command `seedbed`."""

from seedbed.cli.main import run

if __name__ == "__main__":
    run()
