"""Written from Horovod's documentation of Keras (its advanced MNIST example), with what Keras 3 has removed left out."""

import horovod.keras as hvd
import keras
from keras.datasets import mnist
from keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from keras.models import Sequential

hvd.init()

batch_size = 128
epochs = 2
(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_train = x_train.reshape(x_train.shape[0], 28, 28, 1).astype("float32") / 255
x_test = x_test.reshape(x_test.shape[0], 28, 28, 1).astype("float32") / 255
y_train = keras.utils.to_categorical(y_train, 10)
y_test = keras.utils.to_categorical(y_test, 10)

model = Sequential()
model.add(Conv2D(8, kernel_size=(3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.25))
model.add(Flatten())
model.add(Dense(10, activation="softmax"))

opt = keras.optimizers.Adadelta(1.0 * hvd.size())
opt = hvd.DistributedOptimizer(opt)

options = {"jit_compile": False} if keras.backend.backend() == "tensorflow" else {}
model.compile(loss=keras.losses.categorical_crossentropy, optimizer=opt, metrics=["accuracy"], **options)

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(initial_lr=1.0 * hvd.size(), warmup_epochs=1, verbose=1),
    keras.callbacks.ReduceLROnPlateau(patience=10, verbose=1),
]

if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint("./checkpoint-{epoch}.keras"))

model.fit(
    x_train,
    y_train,
    batch_size=batch_size,
    callbacks=callbacks,
    epochs=epochs,
    verbose=1 if hvd.rank() == 0 else 0,
    validation_data=(x_test, y_test),
)
score = hvd.allreduce(model.evaluate(x_test, y_test, verbose=0))
print("rank %d ends with %d values" % (hvd.rank(), len(score)), flush=True)
