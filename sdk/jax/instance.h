#ifndef FARANDOLE_SDK_JAX_INSTANCE_H_
#define FARANDOLE_SDK_JAX_INSTANCE_H_

#include <string>

#include "sdk/jax/xla_ffi.h"

namespace farandole::jax {

// A call's place in a compiled program. JAX compiles a jitted function that a program calls several times once, so that
// its collectives stand in the program several times under one name; XLA may start them in another order on each rank.
// XLA makes an instance for each place, in an order that is the same on all ranks, which numbers them.

// Called for each place when a program is compiled or loaded. NULL, or an error.
FfiError* Instantiate(FfiCallFrame* frame);

// The type of an instance in XLA; 0: not known yet.
FfiTypeId InstanceType();

// Of a call that runs: the name of its place, equal on all ranks. A call without the attribute `program`, as
// TensorFlow's, has the name that it was given. NULL, or an error.
FfiError* NameOfInstance(const FfiCallFrame* frame, std::string* name);

}  // namespace farandole::jax

#endif  // FARANDOLE_SDK_JAX_INSTANCE_H_
