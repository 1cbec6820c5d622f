"""The tests of each folder, for tools/test --only."""

# The folders of tests with a part of their own: its environment, or its runner, is another one.
OWN_PARTS = {
    "tests/tensorflow": "tensorflow",
    "tests/keras": "keras",
    "tests/jax": "jax",
    "tests/mxnet": "mxnet",
    "tests/go": "go",
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
    "tests/go": "tests/go",
    "sdk/go": "tests/go",
    "examples/go": "tests/go",
    "tests/wheel": "tests/wheel",
    "sdk/python": "tests/python",
    "sdk/cpp": "tests/cpp",
    "docs": "tests/tidy",
    "tools": "tests/tidy",
}
