"""Horovod's services."""
