"""What Horovod's launchers share, by Horovod's names."""
