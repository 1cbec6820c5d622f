"""Tools of Horovod's launcher that programs use."""
