"""The parts that Horovod's frameworks share, by Horovod's names."""
