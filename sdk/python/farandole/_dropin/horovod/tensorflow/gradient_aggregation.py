"""farandole.tensorflow.gradient_aggregation by Horovod's name."""

from farandole.tensorflow import global_process_set, size_op  # noqa: F401
from farandole.tensorflow.gradient_aggregation import (  # noqa: F401
    LocalGradientAggregationHelper,
    apply_op_to_not_none_tensors,
    get_not_none_from_list,
)
