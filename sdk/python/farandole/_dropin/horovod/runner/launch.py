"""The command `horovodrun`."""

from farandole.runner import run_commandline

if __name__ == "__main__":
    run_commandline()
