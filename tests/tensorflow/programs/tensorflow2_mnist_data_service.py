"""Written from Horovod's examples of a tf.data service (compute side and training side dispatchers): nothing here is Farandole's,
but the last line and the local images."""

import argparse
import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from horovod.tensorflow.data.compute_service import TfDataServiceConfig, tf_data_service


def training_side(dataset, config, reuse_dataset, round_robin, train):
    with tf_data_service(config, hvd.rank()) as dispatcher_address:
        train(
            dataset.apply(
                tf.data.experimental.service.distribute(
                    service=dispatcher_address,
                    processing_mode="distributed_epoch",
                    job_name="job" if reuse_dataset else None,
                    consumer_index=hvd.rank() if round_robin else None,
                    num_consumers=hvd.size() if round_robin else None,
                )
            )
        )


def compute_side(dataset, config, reuse_dataset, round_robin, train):
    train(
        dataset.send_to_data_service(
            config, hvd.rank(), hvd.size(), reuse_dataset=reuse_dataset, round_robin=round_robin
        )
    )


def train_on(dataset):
    model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")])
    model.build((None, 28, 28))
    hvd.broadcast_variables(model.variables, root_rank=0)
    loss_of = tf.losses.SparseCategoricalCrossentropy()
    opt = tf.optimizers.Adam(0.001 * hvd.size())
    rows = []

    @tf.function
    def training_step(images, labels):
        with tf.GradientTape() as tape:
            loss_value = loss_of(labels, model(images, training=True))
        tape = hvd.DistributedGradientTape(tape)
        grads = tape.gradient(loss_value, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss_value

    for images, labels, numbers in dataset:
        loss_value = training_step(images, labels)
        rows += numbers.numpy().tolist()
        assert np.isfinite(loss_value)
    # Trainers that share the rows of one run may have had different numbers of batches.
    hvd.join()
    print("rank %d has rows %s" % (hvd.rank(), ",".join(map(str, sorted(rows)))), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("configfile")
    parser.add_argument("--reuse-dataset", action="store_true", dest="reuse_dataset")
    parser.add_argument("--round-robin", action="store_true", dest="round_robin")
    args = parser.parse_args(sys.argv[1:])

    hvd.init()
    compute_config = TfDataServiceConfig.read(args.configfile, wait_for_file_creation=True)

    random = np.random.RandomState(1)
    images = random.rand(64, 28, 28).astype(np.float32)
    labels = random.randint(10, size=64)
    data = tf.data.Dataset.from_tensor_slices((images, labels, np.arange(64))).batch(4)
    side = training_side if compute_config.dispatcher_side == "training" else compute_side
    side(data, compute_config, args.reuse_dataset, args.round_robin, train_on)

    if hvd.rank() == 0:
        compute = compute_config.compute_client(verbose=2)
        compute.shutdown()
