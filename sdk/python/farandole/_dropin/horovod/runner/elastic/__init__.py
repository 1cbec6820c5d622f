"""The part of Horovod's launcher that programs for elastic jobs name; there is no more of it."""
