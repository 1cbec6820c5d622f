"""C++ code of .proto files, by Debian's protoc and its gRPC plugin."""

_ROOT = "proto"

def cc_grpc_library(name, srcs, deps = [], **kwargs):
    """Messages and gRPC services of `srcs`, included as "farandole/v1/x.pb.h" and "farandole/v1/x.grpc.pb.h".

    Args:
      name: the cc_library.
      srcs: .proto files of this package; they import each other and those of `deps` by their path below proto/.
      deps: other cc_grpc_library targets.
      **kwargs: visibility and the like.
    """
    if native.package_name() != _ROOT:
        fail("cc_grpc_library: protos are generated in //%s, not in //%s" % (_ROOT, native.package_name()))
    stems = [src[:-len(".proto")] for src in srcs]
    hdrs = [stem + suffix for stem in stems for suffix in [".pb.h", ".grpc.pb.h"]]
    code = [stem + suffix for stem in stems for suffix in [".pb.cc", ".grpc.pb.cc"]]
    native.filegroup(
        name = name + "_protos",
        srcs = srcs + [dep + "_protos" for dep in deps],
    )
    native.genrule(
        name = name + "_generate",
        srcs = [":" + name + "_protos"],
        outs = hdrs + code,
        cmd = " ".join([
            "/usr/bin/protoc",
            "-I" + _ROOT,
            "--cpp_out=$(RULEDIR)",
            "--grpc_out=$(RULEDIR)",
            "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin",
        ] + ["%s/%s" % (_ROOT, src) for src in srcs]),
        message = "Generating C++ of " + name,
    )
    native.cc_library(
        name = name,
        srcs = code,
        hdrs = hdrs,
        # Generated code is not ours to clean.
        copts = ["-w"],
        includes = ["."],
        deps = deps + [
            "@system//:grpc++",
            "@system//:protobuf",
        ],
        **kwargs
    )
