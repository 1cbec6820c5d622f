"""The parts that Horovod's launchers share, by Horovod's names."""
