"""What of Horovod's launcher programs for elastic jobs name; there is no more of it."""
