#include "sdk/jax/instance.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "worker/farandole.h"

namespace farandole::jax {
namespace {

struct Instance {
  std::string name;
};

constexpr char kTypeName[] = "farandole.jax.Instance";

// Of the process.
struct Instances {
  std::mutex mutex;
  FfiTypeId type = {0};
  // By the number of the program in this process, and the name.
  std::map<std::pair<int64_t, std::string>, int> counts;
};

Instances& All() {
  static Instances* instances = new Instances();
  return *instances;
}

void DeleteInstance(void* instance) { delete static_cast<Instance*>(instance); }

FfiError* RegisterType(const FfiApi* api) {
  Instances& all = All();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.type.number != 0) return nullptr;
  static const FfiStateType info = {sizeof(FfiStateType), nullptr, DeleteInstance};
  FfiTypeRegisterArgs arguments = {
      sizeof(FfiTypeRegisterArgs), nullptr, {kTypeName, sizeof(kTypeName) - 1}, &all.type, &info};
  return api->type_register(&arguments);
}

// How many instances of the name the program had before.
int CountBefore(int64_t program, const std::string& name) {
  Instances& all = All();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.counts[{program, name}]++;
}

}  // namespace

FfiTypeId InstanceType() {
  std::lock_guard<std::mutex> lock(All().mutex);
  return All().type;
}

FfiError* Instantiate(FfiCallFrame* frame) {
  const FfiApi* const api = frame->api;
  if (HasStates(api)) {
    if (FfiError* const error = RegisterType(api); error != nullptr) return error;
  }
  if (AnswerMetadata(frame, InstanceType())) return nullptr;
  if (FfiError* const refusal = RefuseInterface(frame); refusal != nullptr) return refusal;
  std::string name = TextAttribute(frame->attributes, "name");
  const int before = CountBefore(NumberAttribute(frame->attributes, "program"), name);
  if (!HasStates(api)) {
    if (before == 0) return nullptr;
    return MakeError(api, FARANDOLE_UNIMPLEMENTED,
                     name +
                         " is in a jitted function that the program calls several times, which this jaxlib cannot tell "
                         "apart: give that function jax.jit(..., inline=True), or install a newer jaxlib");
  }
  if (before > 0) name += "#" + std::to_string(before + 1);
  auto instance = std::make_unique<Instance>(Instance{std::move(name)});
  FfiTypeId type = InstanceType();
  FfiStateArgs arguments = {sizeof(FfiStateArgs), nullptr, frame->context, kFfiInstantiate, &type, instance.get()};
  FfiError* const error = api->state_set(&arguments);
  if (error == nullptr) instance.release();
  return error;
}

FfiError* NameOfInstance(const FfiCallFrame* frame, std::string* name) {
  if (!HasStates(frame->api) || NumberAttribute(frame->attributes, "program") == 0) {
    *name = TextAttribute(frame->attributes, "name");
    return nullptr;
  }
  FfiTypeId type = InstanceType();
  FfiStateArgs arguments = {sizeof(FfiStateArgs), nullptr, frame->context, kFfiInstantiate, &type, nullptr};
  if (FfiError* const error = frame->api->state_get(&arguments); error != nullptr) return error;
  *name = static_cast<const Instance*>(arguments.state)->name;
  return nullptr;
}

}  // namespace farandole::jax
