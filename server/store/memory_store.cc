#include "server/store/memory_store.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "server/store/group_commit_store.h"
#include "server/store/store_medium.h"

namespace farandole {
namespace {

class MemoryMedium : public StoreMedium {
 public:
  absl::Status Write(absl::Span<const StoreBatch> batches) override {
    for (const StoreBatch& batch : batches) {
      for (const std::string& key : batch.deletes) rows_.erase(key);
      for (const StoreRow& row : batch.puts) rows_[row.key] = row.value;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<std::string>> Get(const std::string& key) override {
    const auto row = rows_.find(key);
    return row == rows_.end() ? std::nullopt : std::optional<std::string>(row->second);
  }

  absl::StatusOr<std::vector<StoreRow>> Scan(const std::string& prefix, const std::string& after,
                                             size_t most) override {
    std::vector<StoreRow> found;
    for (auto row = after < prefix ? rows_.lower_bound(prefix) : rows_.upper_bound(after);
         row != rows_.end() && absl::StartsWith(row->first, prefix) && found.size() < most; ++row) {
      found.push_back({row->first, row->second});
    }
    return found;
  }

  absl::StatusOr<uint64_t> Measure(const std::string& prefix) override {
    uint64_t bytes = 0;
    for (auto row = rows_.lower_bound(prefix); row != rows_.end() && absl::StartsWith(row->first, prefix); ++row)
      bytes += row->first.size() + row->second.size();
    return bytes;
  }

  absl::Status Recover() override { return absl::OkStatus(); }

 private:
  std::map<std::string, std::string> rows_;
};

}  // namespace

std::unique_ptr<Store> MakeMemoryStore() {
  // An empty map has no revisions to misread, so Start cannot fail.
  return std::move(GroupCommitStore::Start(std::make_unique<MemoryMedium>())).value();
}

}  // namespace farandole
