#include "sdk/jax/xla_ffi.h"

#include <cstring>

#include "worker/farandole.h"

namespace farandole::jax {

namespace {

const void* FindAttribute(const FfiAttributes& attributes, int type, const char* name) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const FfiByteSpan* const found = attributes.names[i];
    if (attributes.types[i] == type && std::string(found->ptr, found->len) == name) return attributes.values[i];
  }
  return nullptr;
}

// All numbers have 64 bits.
template <typename Number>
Number ScalarAttribute(const FfiAttributes& attributes, const char* name) {
  const auto* const scalar = static_cast<const FfiScalar*>(FindAttribute(attributes, kFfiScalar, name));
  Number number = 0;
  if (scalar != nullptr) memcpy(&number, scalar->value, sizeof(number));
  return number;
}

}  // namespace

std::string TextAttribute(const FfiAttributes& attributes, const char* name) {
  const auto* const text = static_cast<const FfiByteSpan*>(FindAttribute(attributes, kFfiString, name));
  return text == nullptr ? "" : std::string(text->ptr, text->len);
}

int64_t NumberAttribute(const FfiAttributes& attributes, const char* name) {
  return ScalarAttribute<int64_t>(attributes, name);
}

double DoubleAttribute(const FfiAttributes& attributes, const char* name) {
  return ScalarAttribute<double>(attributes, name);
}

bool HasStates(const FfiApi* api) { return api != nullptr && api->version.minor_version >= 3; }

bool AnswerMetadata(FfiCallFrame* frame, FfiTypeId state) {
  FfiExtension* const extension = frame->extension_start;
  if (extension == nullptr || extension->type != kFfiMetadata) return false;
  FfiMetadata* const metadata = reinterpret_cast<FfiMetadataExtension*>(extension)->metadata;
  metadata->api_version.struct_size = sizeof(FfiVersion);
  metadata->api_version.extension_start = nullptr;
  // XLA of interface 0.1 gives none where it asks this.
  const FfiVersion oldest = {sizeof(FfiVersion), nullptr, 0, 1};
  const FfiVersion& known = frame->api == nullptr ? oldest : frame->api->version;
  metadata->api_version.major_version = known.major_version;
  metadata->api_version.minor_version = known.minor_version;
  metadata->traits = 0;
  if (HasStates(frame->api) && metadata->struct_size >= sizeof(FfiMetadata)) metadata->state_type_id = state;
  return true;
}

FfiError* RefuseInterface(const FfiCallFrame* frame) {
  const FfiApi* const api = frame->api;
  // Errors are made by what has been at the same place in all versions.
  if (api->version.major_version != 0) {
    return MakeError(api, FARANDOLE_UNIMPLEMENTED,
                     "farandole.jax knows XLA's foreign function interface 0, and this jaxlib has " +
                         std::to_string(api->version.major_version) + "; install a newer farandole");
  }
  // That of 0.1 has the functions, but names a smaller size; farandole.jax looks at jaxlib's version besides.
  if (api->version.minor_version > 1 && api->struct_size < offsetof(FfiApi, run_id_get)) {
    return MakeError(api, FARANDOLE_UNIMPLEMENTED,
                     "farandole.jax needs jaxlib 0.4.38 or later: this one's interface has " +
                         std::to_string(api->struct_size) + " bytes, and no futures");
  }
  return nullptr;
}

FfiError* MakeError(const FfiApi* api, int code, const std::string& message) {
  FfiErrorCreateArgs arguments = {sizeof(FfiErrorCreateArgs), nullptr, message.c_str(), code};
  return api->error_create(&arguments);
}

std::string TakeMessage(const FfiApi* api, FfiError* error) {
  FfiErrorMessageArgs asked = {sizeof(FfiErrorMessageArgs), nullptr, error, nullptr};
  api->error_message(&asked);
  std::string message = asked.message;
  FfiErrorDestroyArgs destroyed = {sizeof(FfiErrorDestroyArgs), nullptr, error};
  api->error_destroy(&destroyed);
  return message;
}

}  // namespace farandole::jax
