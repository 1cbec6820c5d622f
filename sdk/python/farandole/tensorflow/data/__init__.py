"""tf.data service: processes that prepare the data of a job's trainers, as a job of their own (docs/tensorflow.md)."""

from .compute_service import (  # noqa: F401
    TfDataServiceConfig,
    compute_worker_fn,
    send_to_data_service,
    tf_data_service,
)

__all__ = ["TfDataServiceConfig", "compute_worker_fn", "send_to_data_service", "tf_data_service"]
