"""Small tools of Horovod's launchers that programs use."""
