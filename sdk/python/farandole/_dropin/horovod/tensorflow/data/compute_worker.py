"""farandole.tensorflow.data.compute_worker by Horovod's name, also as a command."""

from farandole.tensorflow.data.compute_worker import main, run  # noqa: F401

if __name__ == "__main__":
    run()
