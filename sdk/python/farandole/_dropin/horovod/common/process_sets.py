"""farandole.process_sets by Horovod's name."""

from farandole.process_sets import (  # noqa: F401
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)
