"""Tests that give a decoder bytes that nobody meant to send."""

def fuzz_test(name, src, corpus, deps, **kwargs):
    """A test of `LLVMFuzzerTestOneInput` in `src`.

    With --config=asan libFuzzer searches for FUZZ_SECONDS (10), beginning with the files of `corpus`; otherwise the test
    gives these files to the function once each.
    """
    native.cc_test(
        name = name,
        srcs = [src],
        args = ["$(rootpaths {})".format(corpus)],
        data = [corpus],
        linkopts = select({
            "//tests/fuzz:with_libfuzzer": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        linkstatic = True,
        size = "medium",
        tags = ["fuzz"],
        deps = deps + select({
            "//tests/fuzz:with_libfuzzer": ["//tests/fuzz:search"],
            "//conditions:default": ["//tests/fuzz:replay"],
        }),
        **kwargs
    )
