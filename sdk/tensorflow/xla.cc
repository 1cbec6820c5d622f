// The ops in what XLA compiles (jit_compile=True): there they are custom calls, which the handlers of JAX's programs
// serve. XLA's interface and its registry are those of the TensorFlow that this process has loaded.
#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "sdk/adapter/worker_library.h"
#include "sdk/jax/handlers.h"
#include "sdk/jax/xla_ffi.h"
#include "sdk/tensorflow/number.h"

namespace farandole::tensorflow {
namespace {

using jax::FfiApi;
using jax::FfiBuffer;
using jax::FfiCallFrame;
using jax::FfiError;

FfiError* ReadNumberOnHost(FfiCallFrame* frame) {
  if (jax::AnswerMetadata(frame, {0})) return nullptr;
  if (FfiError* const refusal = jax::RefuseInterface(frame); refusal != nullptr) return refusal;
  const int32_t number = ReadNumber(jax::NumberAttribute(frame->attributes, "which"),
                                    static_cast<int32_t>(jax::NumberAttribute(frame->attributes, "group")));
  if (number < 0) return jax::MakeError(frame->api, -number, NumberError());
  memcpy(static_cast<const FfiBuffer*>(frame->results.buffers[0])->data, &number, sizeof(number));
  return nullptr;
}

std::string Register(const FfiApi* api, const char* name, const char* platform, jax::FfiFunction handler) {
  jax::FfiRegistrationArgs arguments = {};
  arguments.struct_size = sizeof(arguments);
  arguments.name = {name, strlen(name)};
  arguments.platform = {platform, strlen(platform)};
  arguments.execute = handler;
  FfiError* const error = api->handler_register(&arguments);
  return error == nullptr ? "" : jax::TakeMessage(api, error);
}

void* FindIn(const char* file, const char* function) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, function);
}

std::string RegisterAll() {
  void* found = FindIn("libtensorflow_framework.so.2", "XLA_FFI_GetApi");
  // TensorFlow 2.19 and 2.20 have it under C++'s name only: xla::ffi::GetXlaFfiApi().
  if (found == nullptr) found = FindIn("libtensorflow_cc.so.2", "_ZN3xla3ffi12GetXlaFfiApiEv");
  if (found == nullptr) return "this TensorFlow has no function XLA_FFI_GetApi";
  const FfiApi* const api = reinterpret_cast<const FfiApi* (*)()>(found)();
  // That of 0.1, as TensorFlow 2.19 has it, names a smaller size than it has. TensorFlow 2.18 names the same, and has
  // fewer functions: Python does not call this there.
  const bool is_short = api->version.minor_version > 1 && api->struct_size < offsetof(FfiApi, run_id_get);
  if (api->version.major_version != 0 || is_short) {
    return "its XLA has version " + std::to_string(api->version.major_version) + "." +
           std::to_string(api->version.minor_version) +
           " of the foreign function interface, and farandole knows 0.1 to 0.3";
  }
  std::string reason = Register(api, "farandole_number", "Host", ReadNumberOnHost);
  for (const jax::Handlers& handlers : jax::AllHandlers()) {
    if (reason.empty()) reason = Register(api, handlers.name, "Host", handlers.host);
    if (reason.empty() && handlers.gpu != nullptr) reason = Register(api, handlers.name, "CUDA", handlers.gpu);
  }
  return reason;
}

}  // namespace
}  // namespace farandole::tensorflow

// NULL: XLA knows the ops. Else why it does not.
extern "C" FARANDOLE_EXPORT const char* farandole_tensorflow_register_with_xla() {
  static const auto* reason = new std::string(farandole::tensorflow::RegisterAll());
  return reason->empty() ? nullptr : reason->c_str();
}
