"""A rank of TensorFlow: `farandole run -np N python tensorflow_rank.py farandole SOCKET`, or with TF_CONFIG in its environment
`python tensorflow_rank.py own SOCKET`, which is MultiWorkerMirroredStrategy. All run in tf.function but eager calls."""

import sys
from typing import Any, Callable, List

import tensorflow as tf
from framework_orders import CHAINED_CALLS, LAYERS, RATE, Exercise, Training, batch, parameters
from orders import Order, serve

Arrays = List[Any]


class _Contender:
    """`all_reduce` sums a list of tensors over the ranks; `run` calls a function in the way that it needs. Keras trains
    with the `optimizer` of one of its own."""

    optimizer: Callable[[Any], Any] = staticmethod(lambda own: own)

    def __init__(self, name: str, place: List[int], all_reduce: Callable[[Arrays], Arrays], run: Any) -> None:
        self.name = name
        self.rank, self.size = place
        self._all_reduce, self._run = all_reduce, run
        self._none = [tf.zeros([1])]
        self._barrier = tf.function(lambda tensors: run(all_reduce, tensors))

    def barrier(self) -> None:
        """Of all ranks."""
        self._barrier(self._none)

    def exercise(self, order: Order) -> Exercise:
        """A collective."""

        reduce = tf.function(lambda tensors: self._run(self._all_reduce, tensors))
        return Exercise(order, [self.rank, self.size], tf.constant, lambda tensors: list(reduce(tensors)))

    def training(self, model: str, how: str) -> Training:
        """`how`: "alone", without communication, or this way."""
        if model in ("chain", "eager"):
            return self._chained(how, model == "chain")
        if model == "keras":
            return self._by_keras(how)
        variables = [tf.Variable(each) for each in parameters()]
        inputs, classes = map(tf.constant, batch(self.rank))

        def step_of(*_: Any) -> None:
            with tf.GradientTape() as tape:
                values = inputs
                for weight, bias in zip(variables[:-2:2], variables[1:-2:2]):
                    values = tf.nn.relu(values @ weight + bias)
                scores = values @ variables[-2] + variables[-1]
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, scores))
            gradients = tape.gradient(loss, variables)
            if how != "alone":
                gradients = self._all_reduce(gradients)
            for variable, gradient in zip(variables, gradients):
                variable.assign_sub(RATE / self.size * gradient)

        step = tf.function(lambda: self._run(step_of, self._none))

        def train(_: Arrays) -> Arrays:
            step()
            return variables

        return Training(variables, train, lambda variable: variable.numpy())

    def _by_keras(self, how: str) -> Training:
        import keras

        hidden = [keras.layers.Dense(outputs, activation="relu") for _, outputs in LAYERS[:-1]]
        model = keras.Sequential([keras.Input((LAYERS[0][0],)), *hidden, keras.layers.Dense(LAYERS[-1][1])])
        model.set_weights(parameters())
        optimizer = keras.optimizers.SGD(RATE)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer if how == "alone" else self.optimizer(optimizer), loss)
        inputs, classes = batch(self.rank)

        def train(_: Arrays) -> Arrays:
            model.train_on_batch(inputs, classes)
            return model.trainable_variables

        return Training(model.trainable_variables, train, lambda variable: variable.numpy())

    def _chained(self, how: str, is_compiled: bool) -> Training:
        def step_of(tensors: Arrays) -> Arrays:
            for _ in range(CHAINED_CALLS):
                tensors = [tf.identity(tensors[0])] if how == "alone" else self._all_reduce(tensors)
            return tensors

        one = [tf.ones([1])]
        step = tf.function(lambda: self._run(step_of, one)) if is_compiled else lambda: self._run(step_of, one)
        return Training([], lambda _: [each.numpy() for each in step()], lambda array: array)


def _farandole() -> None:
    import farandole.tensorflow as hvd

    hvd.init()

    def all_reduce(tensors: Arrays) -> Arrays:
        return [hvd.allreduce(tensor, op=hvd.Sum) for tensor in tensors]

    contender = _Contender("farandole", [hvd.rank(), hvd.size()], all_reduce, lambda call, tensors: call(tensors))
    contender.optimizer = hvd.DistributedOptimizer
    serve(contender)
    hvd.shutdown()


def _own() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    place = [strategy.cluster_resolver.task_id, strategy.num_replicas_in_sync]

    def all_reduce(tensors: Arrays) -> Arrays:
        # An argument of a function has no device, which the strategy asks for.
        placed = [tf.identity(tensor) for tensor in tensors]
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, placed)

    serve(_Contender("own", place, all_reduce, lambda call, tensors: strategy.run(call, args=(tensors,))))


if __name__ == "__main__":
    {"farandole": _farandole, "own": _own}[sys.argv[1]]()
