// A profiler's library, as NVTX's own headers have it: writes the calls for the domain "farandole" to stderr.
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdio>
#include <cstring>

#include "worker/engine/submissions/book/profiler_ranges.h"

// Farandole's own declarations of the headers.
using farandole::NvtxAttributes;
static_assert(sizeof(NvtxAttributes) == sizeof(nvtxEventAttributes_t), "nvtxEventAttributes_t");
static_assert(offsetof(NvtxAttributes, payload) == offsetof(nvtxEventAttributes_t, payload), "payload");
static_assert(offsetof(NvtxAttributes, message_type) == offsetof(nvtxEventAttributes_t, messageType), "messageType");
static_assert(offsetof(NvtxAttributes, message) == offsetof(nvtxEventAttributes_t, message), "message");
static_assert(NvtxAttributes().version == NVTX_VERSION, "NVTX_VERSION");
static_assert(NvtxAttributes().payload_type == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, "nvtxPayloadType_t");
static_assert(NvtxAttributes().message_type == NVTX_MESSAGE_TYPE_ASCII, "nvtxMessageType_t");

namespace {

nvtxDomainHandle_t CreateDomain(const char* name) {
  std::fprintf(stderr, "domain %s\n", name);
  return reinterpret_cast<nvtxDomainHandle_t>(1);
}

nvtxRangeId_t Start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  static nvtxRangeId_t last = 0;
  const nvtxRangeId_t id = __atomic_add_fetch(&last, 1, __ATOMIC_SEQ_CST);
  std::fprintf(stderr, "range %d.%d begins: %s, %d bytes\n", static_cast<int>(reinterpret_cast<size_t>(domain)),
               static_cast<int>(id), attributes->message.ascii, static_cast<int>(attributes->payload.ullValue));
  return id;
}

void End(nvtxDomainHandle_t, nvtxRangeId_t id) { std::fprintf(stderr, "range %d ends\n", static_cast<int>(id)); }

template <typename Wanted>
void Put(NvtxFunctionTable table, unsigned size, unsigned index, Wanted* function) {
  if (index < size && table[index] != nullptr) *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t exports) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(exports(NVTX_ETID_CALLBACKS));
  const auto* version = static_cast<const NvtxExportTableVersionInfo*>(exports(NVTX_ETID_VERSIONINFO));
  if (callbacks->struct_size < sizeof(*callbacks) || version->struct_size < sizeof(*version)) return 0;
  version->SetInjectionNvtxVersion(NVTX_VERSION);
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  // A profiler asks for all of them.
  for (int module = 1; module < NVTX_CB_MODULE_SIZE; ++module) {
    if (callbacks->GetModuleFunctionTable(static_cast<NvtxCallbackModule>(module), &table, &size) == 0) return 0;
  }
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  Put(table, size, NVTX_CBID_CORE2_DomainCreateA, &CreateDomain);
  Put(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, &Start);
  Put(table, size, NVTX_CBID_CORE2_DomainRangeEnd, &End);
  return 1;
}
