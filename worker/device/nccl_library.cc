#include "worker/device/nccl_library.h"

#include <memory>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "base/dynamic_library.h"

namespace farandole {
namespace {

absl::Status FindAll(const std::string& path, NcclLibrary* nccl) {
  const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open({path, "libnccl.so.2"});
  if (!library.ok()) return library.status();
  absl::Status status;
  const auto find = [&](const char* name, auto* function) { status.Update(library->Find(name, function)); };
  find("ncclGetVersion", &nccl->ncclGetVersion);
  find("ncclGetUniqueId", &nccl->ncclGetUniqueId);
  find("ncclCommInitRankConfig", &nccl->ncclCommInitRankConfig);
  find("ncclCommSplit", &nccl->ncclCommSplit);
  find("ncclCommFinalize", &nccl->ncclCommFinalize);
  find("ncclCommDestroy", &nccl->ncclCommDestroy);
  find("ncclCommAbort", &nccl->ncclCommAbort);
  find("ncclCommGetAsyncError", &nccl->ncclCommGetAsyncError);
  find("ncclGetErrorString", &nccl->ncclGetErrorString);
  find("ncclGetLastError", &nccl->ncclGetLastError);
  find("ncclRedOpCreatePreMulSum", &nccl->ncclRedOpCreatePreMulSum);
  find("ncclRedOpDestroy", &nccl->ncclRedOpDestroy);
  find("ncclAllReduce", &nccl->ncclAllReduce);
  find("ncclReduce", &nccl->ncclReduce);
  find("ncclReduceScatter", &nccl->ncclReduceScatter);
  find("ncclAllGather", &nccl->ncclAllGather);
  find("ncclBroadcast", &nccl->ncclBroadcast);
  find("ncclSend", &nccl->ncclSend);
  find("ncclRecv", &nccl->ncclRecv);
  find("ncclGroupStart", &nccl->ncclGroupStart);
  find("ncclGroupEnd", &nccl->ncclGroupEnd);
  if (!status.ok()) return status;
  absl::Status registers = library->Find("ncclMemAlloc", &nccl->ncclMemAlloc);
  registers.Update(library->Find("ncclMemFree", &nccl->ncclMemFree));
  registers.Update(library->Find("ncclCommRegister", &nccl->ncclCommRegister));
  if (!registers.ok()) nccl->ncclMemAlloc = nullptr;
  if (nccl->ncclGetVersion(&nccl->version) != kNcclSuccess || nccl->version < NcclLibrary::kOldestVersion) {
    return absl::UnavailableError(absl::StrCat("NCCL is of version ", NcclVersionName(nccl->version), "; ",
                                               NcclVersionName(NcclLibrary::kOldestVersion),
                                               " is the oldest that can be used"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status NcclLibrary::Check(int result, absl::string_view call, NcclComm comm) const {
  if (result == kNcclSuccess || result == kNcclInProgress) return absl::OkStatus();
  const char* more = ncclGetLastError(comm);
  const absl::string_view told = more == nullptr ? "" : more;
  return absl::InternalError(absl::StrCat(call, ": ", ncclGetErrorString(result), " (error ", result, ")",
                                          told.empty() ? "" : "; NCCL says: ", told));
}

absl::StatusOr<const NcclLibrary*> NcclLibrary::Load(const std::string& path) {
  static std::mutex mutex;
  static const NcclLibrary* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(mutex);
  if (loaded != nullptr) return loaded;
  auto library = std::make_unique<NcclLibrary>();
  // A framework may bring one when it is imported: look again for a library that was not found.
  if (absl::Status status = FindAll(path, library.get()); !status.ok()) return status;
  loaded = library.release();
  return loaded;
}

std::string NcclVersionName(int version) {
  // Before 2.9 the numbers had one digit less.
  if (version < 10000) return absl::StrCat(version / 1000, ".", version % 1000 / 100, ".", version % 100);
  return absl::StrCat(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

}  // namespace farandole
