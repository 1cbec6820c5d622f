"""farandole.tensorflow.data.compute_service by Horovod's name."""

from farandole.tensorflow.data.compute_service import (  # noqa: F401
    TfDataServiceConfig,
    compute_worker_fn,
    send_to_data_service,
    tf_data_service,
)
