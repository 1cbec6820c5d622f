#ifndef FARANDOLE_SERVER_LOGGED_LOGGED_VALUES_H_
#define FARANDOLE_SERVER_LOGGED_LOGGED_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farandole/v1/logged.pb.h"
#include "server/logged/logged_curve.h"
#include "server/logged/tenant_budgets.h"
#include "server/store/store.h"

namespace farandole {

// All that the programs of one job have logged, and how far it is kept. Pure. Owned by its Job.
//
// A rank sends points again when its stream broke, as nobody knows which of them were kept; their numbers tell which
// are new. The numbers are kept by the same commit as the points. (If more than 100 rows have changed, it takes several
// commits; a coordinator that dies between them may count some values twice, which then weigh more in their averages.)
class LoggedValues {
 public:
  // The most bytes of a job. A point counts 64 bytes.
  static constexpr int64_t kMostBytes = 4 << 20;
  static constexpr int64_t kPointBytes = sizeof(LoggedPoint);
  // Most names that one question may list, and the longest that a program may log.
  static constexpr size_t kMostNamesAsked = 256;
  static constexpr size_t kMostNameBytes = 128;

  LoggedValues(std::string tenant, std::string job, std::shared_ptr<TenantBudgets> budgets);
  ~LoggedValues();
  LoggedValues(const LoggedValues&) = delete;
  LoggedValues& operator=(const LoggedValues&) = delete;

  // From `rank` of the `size` ranks of `epoch`; within the bounds that logged.proto states.
  void Take(uint32_t rank, uint32_t size, uint64_t epoch, const v1::LoggedPoints& points, int64_t now_unix_ms);
  // Why points are not kept, once; "": they are.
  std::string TakeNews() { return std::exchange(news_, ""); }
  // INVALID_ARGUMENT: a question lists more names, or longer ones.
  template <typename Names>
  static absl::Status CheckNames(const Names& names);
  // With CheckNames' OK.
  v1::ListLoggedResponse List(const std::vector<std::string>& names) const;

  bool IsDirty() const { return is_dirty_; }
  // Puts what has changed into a batch, of which the rest has room for 20 rows more. False: there is more.
  bool Save(StoreBatch* batch);
  // A row of an earlier life, under logged/. DATA_LOSS: it cannot be read.
  absl::Status Load(const StoreRow& row);

 private:
  // Name, and rank or -1.
  using CurveKey = std::pair<std::string, int64_t>;
  struct Entry {
    LoggedCurve curve;
    int number = 0;
    // Taken of the budgets.
    int64_t bytes = 0;
  };

  void BeginEpoch(uint64_t epoch, uint32_t size);
  void Add(const CurveKey& key, int64_t step, double value, uint64_t epoch, int64_t at_unix_ms);
  bool HasRoom(int64_t bytes, const CurveKey& key);
  void Refuse(const CurveKey& key, const std::string& whose, int64_t most);
  std::string RowKey(int number, size_t chunk) const;

  const std::string tenant_;
  const std::string job_;
  const std::shared_ptr<TenantBudgets> budgets_;
  std::map<CurveKey, Entry> curves_;
  std::map<int, CurveKey> numbers_;
  int last_number_ = 0;
  int64_t bytes_ = 0;
  v1::LoggedStands stands_;
  bool is_dirty_ = false;
  std::string news_;
};

template <typename Names>
absl::Status LoggedValues::CheckNames(const Names& names) {
  if (static_cast<size_t>(names.size()) > kMostNamesAsked) {
    return absl::InvalidArgumentError(
        absl::StrCat(names.size(), " names are asked for; ", kMostNamesAsked, " are the most"));
  }
  for (const std::string& name : names) {
    if (name.size() <= kMostNameBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("a name of ", name.size(), " bytes is asked for; ", kMostNameBytes, " are the most"));
  }
  return absl::OkStatus();
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOGGED_LOGGED_VALUES_H_
