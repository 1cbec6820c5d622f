#include "worker/engine/submissions/book/profiler_ranges.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/dynamic_library.h"

namespace farandole {
namespace {

// The interface between an application and a profiler's library, as nvtxTypes.h has it. The application gives it tables
// of places, one table for each module, and it puts its functions there.
using Function = void (*)();

constexpr uint32_t kCallbacks = 1;
constexpr uint32_t kVersionInfo = 3;
constexpr int kCore2 = 5;
constexpr unsigned kModules = 7;
// A module's table has at most so many functions, the first of which is none.
constexpr unsigned kMostFunctions = 16;
constexpr unsigned kFunctionsOfModule[kModules] = {0, 16, 9, 15, 7, 16, 7};
// Within kCore2.
constexpr unsigned kDomainRangeStart = 2;
constexpr unsigned kDomainRangeEnd = 3;
constexpr unsigned kDomainCreate = 12;

Function functions[kModules][kMostFunctions];
Function* places[kModules][kMostFunctions + 1];

int GiveTable(int module, Function*** table, unsigned* size) {
  if (module < 1 || module >= static_cast<int>(kModules)) return 0;
  // The first is none.
  for (unsigned i = 1; i < kFunctionsOfModule[module]; ++i) places[module][i] = &functions[module][i];
  if (table != nullptr) *table = places[module];
  if (size != nullptr) *size = kFunctionsOfModule[module];
  return 1;
}

struct CallbacksTable {
  size_t bytes = sizeof(CallbacksTable);
  int (*give_table)(int module, Function*** table, unsigned* size) = GiveTable;
};
struct VersionTable {
  size_t bytes = sizeof(VersionTable);
  uint32_t version = 3;
  uint32_t reserved = 0;
  void (*set_library_version)(uint32_t) = [](uint32_t) {};
};

const void* GiveExports(uint32_t id) {
  static const CallbacksTable callbacks;
  static const VersionTable version;
  if (id == kCallbacks) return &callbacks;
  return id == kVersionInfo ? &version : nullptr;
}

template <typename Wanted>
void Take(unsigned index, Wanted* function) {
  *function = reinterpret_cast<Wanted>(functions[kCore2][index]);
}

}  // namespace

absl::Status ProfilerRanges::Load(const std::string& library) {
  const absl::StatusOr<DynamicLibrary> loaded = DynamicLibrary::Open({library}, RTLD_LAZY);
  if (!loaded.ok()) return loaded.status();
  int (*initialize)(const void* (*)(uint32_t)) = nullptr;
  if (absl::Status found = loaded->Find("InitializeInjectionNvtx2", &initialize); !found.ok()) return found;
  if (initialize(GiveExports) == 0) return absl::UnavailableError(absl::StrCat(library, ": it refuses to start"));
  CreateDomain create = nullptr;
  Take(kDomainCreate, &create);
  Take(kDomainRangeStart, &begin_);
  Take(kDomainRangeEnd, &end_);
  if (create == nullptr || begin_ == nullptr || end_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(library, ": it takes no ranges"));
  }
  domain_ = create("farandole");
  return absl::OkStatus();
}

absl::StatusOr<const ProfilerRanges*> ProfilerRanges::Attach(const std::string& library) {
  static const auto* const attached = [&library] {
    auto* made = new std::pair<ProfilerRanges, absl::Status>;
    made->second = made->first.Load(library);
    return made;
  }();
  if (!attached->second.ok()) return attached->second;
  return &attached->first;
}

uint64_t ProfilerRanges::Begin(const std::string& message, uint64_t number) const {
  NvtxAttributes attributes;
  attributes.payload = number;
  attributes.message = message.c_str();
  return begin_(domain_, &attributes);
}

void ProfilerRanges::End(uint64_t range) const { end_(domain_, range); }

}  // namespace farandole
