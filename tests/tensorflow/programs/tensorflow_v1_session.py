"""Written from Horovod's documentation of TensorFlow 1 (docs/tensorflow.rst, its MNIST example): nothing here is Farandole's, but
the images and the last line."""

import os

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

# Initialize Horovod
hvd.init()

# Pin GPU to be used to process local rank (one GPU per process)
config = tf.ConfigProto()
config.gpu_options.visible_device_list = str(hvd.local_rank())

# Build model...
random = np.random.RandomState(hvd.rank())
images = tf.constant(random.rand(64, 784).astype(np.float32))
labels = tf.constant(random.randint(10, size=64))
weights = tf.get_variable("weights", [784, 10], initializer=tf.glorot_uniform_initializer(seed=hvd.rank()))
loss = tf.losses.sparse_softmax_cross_entropy(labels, tf.matmul(images, weights))
opt = tf.train.AdagradOptimizer(0.01 * hvd.size())

# Add Horovod Distributed Optimizer
opt = hvd.DistributedOptimizer(opt)

# Make training operation
global_step = tf.train.get_or_create_global_step()
train_op = opt.minimize(loss, global_step=global_step)
with tf.control_dependencies([train_op]):
    after = tf.identity(weights)

# Add hook to broadcast variables from rank 0 to all other processes during initialization.
hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=20 // hvd.size())]

# Save checkpoints only on worker 0 to prevent other workers from corrupting them.
checkpoint_dir = os.path.join(os.path.dirname(__file__), "train_logs") if hvd.rank() == 0 else None

with tf.train.MonitoredTrainingSession(checkpoint_dir=checkpoint_dir, config=config, hooks=hooks) as mon_sess:
    losses = []
    while not mon_sess.should_stop():
        value, _, trained = mon_sess.run([loss, train_op, after])
        losses.append(value)

print(
    "rank %d ends %s, %r" % (hvd.rank(), "lower" if losses[-1] < losses[0] else "higher", float(trained.sum())),
    flush=True,
)
