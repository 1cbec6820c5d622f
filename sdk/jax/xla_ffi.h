#ifndef FARANDOLE_SDK_JAX_XLA_FFI_H_
#define FARANDOLE_SDK_JAX_XLA_FFI_H_

#include <cstddef>
#include <cstdint>
#include <string>

// XLA's foreign function interface (xla/ffi/api/c_api.h, API versions 0.1 to 0.3), as far as these handlers need it.
// The declarations are our own: XLA is not there when this is built. XLA promises that the layouts stay within major
// version 0, and each structure tells its size.
namespace farandole::jax {

struct FfiError;
struct FfiFuture;
struct FfiContext;

enum : int { kFfiMetadata = 1 };                      // kinds of extensions
enum : int { kFfiInstantiate = 0, kFfiExecute = 3 };  // stages
enum : int { kFfiScalar = 3, kFfiString = 4 };        // kinds of attributes
enum : int { kFfiBuffer = 1 };                        // kinds of arguments and results

struct FfiExtension {
  size_t struct_size;
  int type;
  FfiExtension* next;
};

struct FfiVersion {
  size_t struct_size;
  FfiExtension* extension_start;
  int major_version;
  int minor_version;
};

struct FfiErrorCreateArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  const char* message;
  int code;
};

struct FfiErrorMessageArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiError* error;
  const char* message;
};

struct FfiErrorDestroyArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiError* error;
};

struct FfiBuffer {
  size_t struct_size;
  FfiExtension* extension_start;
  int dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};

struct FfiByteSpan {
  const char* ptr;
  size_t len;
};

struct FfiScalar {
  int dtype;
  void* value;
};

// Of arguments and of results.
struct FfiBuffers {
  size_t struct_size;
  FfiExtension* extension_start;
  int64_t size;
  int* types;
  void** buffers;
};

struct FfiAttributes {
  size_t struct_size;
  FfiExtension* extension_start;
  int64_t size;
  int* types;
  FfiByteSpan** names;
  void** values;
};

struct FfiFutureCreateArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiFuture* future;
};

struct FfiFutureSetAvailableArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiFuture* future;
};

struct FfiFutureSetErrorArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiFuture* future;
  FfiError* error;
};

// An instance of a handler keeps an object from its instantiation on. XLA numbers the object's type.
struct FfiTypeId {
  int64_t number;
};

struct FfiStateType {
  size_t struct_size;
  FfiExtension* extension_start;
  void (*deleter)(void* object);
};

struct FfiTypeRegisterArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiByteSpan name;
  FfiTypeId* type_id;
  const FfiStateType* type_info;
};

// From 0.3 on.
struct FfiStateArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiContext* context;
  int stage;
  FfiTypeId* type_id;
  void* state;
};

struct FfiStreamArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiContext* context;
  void* stream;
};

struct FfiCallFrame;

// NULL, or an error, which is XLA's.
using FfiFunction = FfiError* (*)(FfiCallFrame*);

struct FfiRegistrationArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiByteSpan name;
  FfiByteSpan platform;
  FfiFunction instantiate;
  FfiFunction prepare;
  FfiFunction initialize;
  FfiFunction execute;
  uint32_t traits;
};

struct FfiDeviceOrdinalArgs {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiContext* context;
  int32_t device_ordinal;
};

using FfiUnused = void (*)();

struct FfiApi {
  size_t struct_size;
  FfiExtension* extension_start;
  FfiVersion version;
  const void* internal;
  FfiError* (*error_create)(FfiErrorCreateArgs*);
  void (*error_message)(FfiErrorMessageArgs*);
  void (*error_destroy)(FfiErrorDestroyArgs*);
  FfiError* (*handler_register)(FfiRegistrationArgs*);
  FfiError* (*stream_get)(FfiStreamArgs*);
  FfiError* (*type_register)(FfiTypeRegisterArgs*);
  FfiUnused context_get;
  FfiError* (*state_set)(FfiStateArgs*);
  FfiError* (*state_get)(FfiStateArgs*);
  FfiUnused memory_allocate;
  FfiUnused memory_free;
  FfiUnused pool_schedule;
  FfiUnused pool_threads;
  FfiError* (*future_create)(FfiFutureCreateArgs*);
  FfiError* (*future_set_available)(FfiFutureSetAvailableArgs*);
  FfiError* (*future_set_error)(FfiFutureSetErrorArgs*);
  // From 0.3 on.
  FfiUnused run_id_get;
  FfiError* (*device_ordinal_get)(FfiDeviceOrdinalArgs*);
};

struct FfiCallFrame {
  size_t struct_size;
  FfiExtension* extension_start;
  const FfiApi* api;
  FfiContext* context;
  int stage;
  FfiBuffers arguments;
  FfiBuffers results;
  FfiAttributes attributes;
  FfiFuture* future;
};

struct FfiMetadata {
  size_t struct_size;
  FfiVersion api_version;
  uint32_t traits;
  // From 0.3 on: of the state of an instance.
  FfiTypeId state_type_id;
};

struct FfiMetadataExtension {
  FfiExtension base;
  FfiMetadata* metadata;
};

// Whether XLA asks what the handler is, and not for a call; answers then: it was built for the runtime's own version,
// whose structures the other functions check. `state`: the type of its instances' states.
bool AnswerMetadata(FfiCallFrame* frame, FfiTypeId state);

// Whether the runtime's structures of states are those above.
bool HasStates(const FfiApi* api);

// The text attribute `name` and the number attribute `name`; "" and 0 where there is none.
std::string TextAttribute(const FfiAttributes& attributes, const char* name);
int64_t NumberAttribute(const FfiAttributes& attributes, const char* name);
double DoubleAttribute(const FfiAttributes& attributes, const char* name);

// NULL, or why this library cannot serve the runtime's interface.
FfiError* RefuseInterface(const FfiCallFrame* frame);

// An error for XLA, which owns it. `code` is Farandole's, whose numbers are XLA's as well.
FfiError* MakeError(const FfiApi* api, int code, const std::string& message);

// The text of an error of XLA's, which is destroyed.
std::string TakeMessage(const FfiApi* api, FfiError* error);

}  // namespace farandole::jax

#endif  // FARANDOLE_SDK_JAX_XLA_FFI_H_
