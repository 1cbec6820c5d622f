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

std::string RegisterAll() {
  void* const library = dlopen("libtensorflow_framework.so.2", RTLD_NOW | RTLD_NOLOAD);
  void* const found = library == nullptr ? nullptr : dlsym(library, "XLA_FFI_GetApi");
  if (found == nullptr) return "this TensorFlow has no function XLA_FFI_GetApi, as those from 2.21 on have";
  const FfiApi* const api = reinterpret_cast<const FfiApi* (*)()>(found)();
  if (api->version.major_version != 0 || api->struct_size < offsetof(FfiApi, run_id_get)) {
    return "its XLA has version " + std::to_string(api->version.major_version) + "." +
           std::to_string(api->version.minor_version) + " of the foreign function interface, and farandole knows 0.2";
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
