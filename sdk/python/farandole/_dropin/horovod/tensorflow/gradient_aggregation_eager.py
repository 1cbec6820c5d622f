"""The eager part of farandole.tensorflow.gradient_aggregation by Horovod's name."""

from farandole.tensorflow import global_process_set, size_op  # noqa: F401
from farandole.tensorflow.gradient_aggregation import LocalGradientAggregationHelperEager  # noqa: F401
