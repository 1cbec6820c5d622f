"""What Horovod's frameworks share, by Horovod's names."""
