#include "worker/member/arenas.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"

namespace farandole {
namespace {

constexpr int64_t kSurfaceNs = 100'000'000;
// All ranks have said that they come.
constexpr absl::Duration kMeetTimeout = absl::Seconds(30);
// So that regions of all ranks together stay within the largest size of a file.
constexpr int64_t kMostBytes = int64_t{1} << 40;

}  // namespace

Arenas::Arenas(ArenaTable* table, Connections* connections, Engine* engine, std::vector<std::string> who)
    : table_(table), connections_(connections), engine_(engine), who_(std::move(who)) {}

absl::StatusOr<std::vector<int64_t>> Arenas::Exchange(const std::string& name, uint32_t group, size_t ranks,
                                                      std::vector<int64_t> own,
                                                      const std::function<bool()>& interrupted) {
  const int64_t shape[] = {1, kStatements};
  const TensorView tensor = {own.data(), nullptr, shape};
  Request request;
  request.op = OpType::kAllgather;
  request.dtype = DType::kI64;
  request.group = group;
  request.name = name;
  request.tensors = absl::MakeConstSpan(&tensor, 1);
  const absl::StatusOr<int64_t> handle = engine_->Submit(request);
  if (!handle.ok()) return handle.status();
  for (;;) {
    const absl::StatusOr<bool> complete = engine_->Wait(*handle, kSurfaceNs, /*release=*/false);
    if (complete.ok() && *complete) break;
    const bool gives_up = complete.ok() && interrupted && interrupted();
    if (complete.ok() && !gives_up) continue;
    engine_->Release(*handle);
    if (!gives_up) return complete.status();
    lent_.push_back(std::move(own));
    return absl::AbortedError(absl::StrCat("waiting for ", name, " was interrupted"));
  }
  const Submission* result = engine_->Result(*handle);
  std::vector<int64_t> all(static_cast<size_t>(result->result_bytes) / sizeof(int64_t));
  std::memcpy(all.data(), result->result.get(), all.size() * sizeof(int64_t));
  engine_->Release(*handle);
  if (all.size() == ranks * kStatements) return all;
  return absl::FailedPreconditionError(
      absl::StrCat(name, ": only ", all.size() / kStatements, " ranks of the group take part, as others have joined"));
}

absl::Status Arenas::CheckBytes(const std::string& name, absl::Span<const int> ranks,
                                absl::Span<const int64_t> stated) const {
  for (size_t position = 1; position < ranks.size(); ++position) {
    const int64_t bytes = stated[position * kStatements];
    if (bytes == stated[0]) continue;
    return absl::InvalidArgumentError(absl::StrCat("arena ", name, ": ", who_[ranks[0]], " asks for ", stated[0],
                                                   " bytes, ", who_[ranks[position]], " for ", bytes));
  }
  if (stated[0] > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("arena ", name, ": all ranks ask for 0 bytes"));
}

absl::StatusOr<std::unique_ptr<EpochMemory>> Arenas::Map(absl::Span<const int> ranks, std::unique_ptr<EpochMemory> own,
                                                         int64_t bytes, const std::function<bool()>& interrupted) {
  const size_t region = static_cast<size_t>(bytes);
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory =
      connections_->Share(ranks, std::move(own), Arena::Bytes(ranks.size(), region), SteadyNow() + kMeetTimeout, [&] {
        if (interrupted && interrupted()) return absl::AbortedError("making an arena was interrupted");
        return engine_->table().ended();
      });
  if (!memory.ok()) return memory;
  const size_t position = static_cast<size_t>(std::find(ranks.begin(), ranks.end(), engine_->rank()) - ranks.begin());
  const size_t offset = Arena::RegionOffset(position, region);
  // Each its own, so that it lies in the memory nearest to its rank.
  if (absl::Status reserved = (*memory)->Reserve(offset, region); !reserved.ok()) return reserved;
  (*memory)->Inherit(offset, region);
  return memory;
}

absl::StatusOr<std::shared_ptr<const Arena>> Arenas::Create(const std::string& name, int64_t bytes, uint32_t group,
                                                            const std::function<bool()>& interrupted) {
  if (bytes < 0 || bytes > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena ", name, ": ", bytes, " bytes are asked for, but it has ", kMostBytes, " at most"));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<std::vector<int>> ranks = engine_->table().RanksOf(group);
  if (!ranks.ok()) return absl::InvalidArgumentError(absl::StrCat("arena ", name, ": ", ranks.status().message()));
  const bool is_within = connections_->ShareMemory(*ranks);
  const bool leads = ranks->front() == engine_->rank();
  absl::StatusOr<std::unique_ptr<EpochMemory>> own = absl::InternalError("");
  if (leads && is_within) own = EpochMemory::Create(Arena::Bytes(ranks->size(), static_cast<size_t>(bytes)));
  // The leader's count of arenas, with its rank, names this one, in all of the epoch.
  const absl::StatusOr<std::vector<int64_t>> wanted =
      Exchange(absl::StrCat("arena.", name), group, ranks->size(), {bytes, made_ + 1, own.ok() ? 1 : 0}, interrupted);
  if (!wanted.ok()) return wanted.status();
  if (absl::Status agreed = CheckBytes(name, *ranks, *wanted); !agreed.ok()) return agreed;
  if (!is_within) {
    return absl::UnimplementedError(
        absl::StrCat("arena ", name, ": the ranks of its group do not share memory; arenas are for those that do"));
  }
  const uint64_t number = static_cast<uint64_t>(ranks->front() + 1) << 32 | static_cast<uint64_t>((*wanted)[1]);
  if ((*wanted)[2] == 0) {
    if (leads) return own.status();
    return absl::ResourceExhaustedError(absl::StrCat("arena ", name, ": ", who_[ranks->front()], " has no memory for ",
                                                     ranks->size(), " regions of ", bytes, " bytes"));
  }
  ++made_;
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory =
      Map(*ranks, leads ? *std::move(own) : nullptr, bytes, interrupted);
  const absl::StatusOr<std::vector<int64_t>> mapped = Exchange(
      absl::StrCat("arena.", name, ".mapped"), group, ranks->size(), {bytes, 0, memory.ok() ? 1 : 0}, interrupted);
  if (!memory.ok()) return memory.status();
  if (!mapped.ok()) return mapped.status();
  for (size_t position = 0; position < ranks->size(); ++position) {
    if ((*mapped)[position * kStatements + 2] != 0) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("arena ", name, ": ", who_[(*ranks)[position]], " has no memory for its ", bytes, " bytes"));
  }
  auto arena =
      std::make_shared<const Arena>(number, *std::move(memory), connections_->LocalIndices(*ranks),
                                    connections_->LocalIndices({engine_->rank()})[0], static_cast<size_t>(bytes));
  table_->Add(arena);
  return arena;
}

}  // namespace farandole
