"""The tests of each folder, for tools/test --only."""

# The folders of tests with a part of their own: its environment, or its runner, is another one.
OWN_PARTS = {
    "tests/tensorflow": "tensorflow",
    "tests/keras": "keras",
    "tests/jax": "jax",
    "tests/mxnet": "mxnet",
    "tests/go": "go",
}

# The examples that are one file, by their tests.
EXAMPLES = {
    "tests/tensorflow": ["examples/tensorflow_fashion_mnist.py"],
    "tests/keras": ["examples/keras_fashion_mnist.py", "examples/elastic_keras_fashion_mnist.py"],
    "tests/mxnet": ["examples/mxnet_fashion_mnist.py"],
    "tests/python/test_examples.py": [
        "examples/elastic_fashion_mnist.py",
        "examples/fashion_mnist.py",
        "examples/fashion_mnist_data.py",
        "examples/numpy_allreduce.py",
        "examples/torch_mlp_objects.py",
    ],
}

# The runners of tests in folders that hold no Bazel package.
PYTEST_FOLDERS = {
    "tests/tidy": "tests/tidy",
    "tests/python": "tests/python",
    "tests/cpp": "tests/cpp",
    "tests/integration": "tests/integration",
    **dict.fromkeys(("tests/tensorflow", "sdk/tensorflow", "sdk/python/farandole/tensorflow"), "tests/tensorflow"),
    **dict.fromkeys(
        ("tests/keras", "sdk/python/farandole/keras", "sdk/python/farandole/_keras", "examples/keras"), "tests/keras"
    ),
    **dict.fromkeys(("tests/jax", "sdk/jax", "sdk/python/farandole/jax", "examples/jax"), "tests/jax"),
    **dict.fromkeys(("tests/mxnet", "sdk/mxnet", "sdk/python/farandole/mxnet"), "tests/mxnet"),
    **{example: tests for tests, examples in EXAMPLES.items() for example in examples},
    "tests/go": "tests/go",
    "sdk/go": "tests/go",
    "examples/go": "tests/go",
    "examples/mixed": "tests/go",
    "examples/cpp": "tests/cpp",
    "tests/wheel": "tests/wheel",
    "sdk/python": "tests/python",
    "sdk/cpp": "tests/cpp",
    "docs": "tests/tidy",
    "tools": "tests/tidy",
}
