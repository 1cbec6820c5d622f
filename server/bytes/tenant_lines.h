#ifndef FARANDOLE_SERVER_BYTES_TENANT_LINES_H_
#define FARANDOLE_SERVER_BYTES_TENANT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace farandole {

// A bound for lines of the coordinator's log: of a tenant so many in a window, as AuditLog has them of denials, and
// then the number of the others. It serves what else has lines that others cause, too, such as a library. One thread at
// a time.
class TenantLines {
 public:
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  // Writes a line of the log about this tenant.
  using Write = std::function<void(const std::string& tenant, const std::string& sentence)>;

  // `about`: their subject, for people, as "launches".
  TenantLines(size_t most_in_window, std::string about, Write write)
      : most_in_window_(most_in_window), about_(std::move(about)), write_(std::move(write)) {}
  // Tells of all that are counted.
  ~TenantLines() { Tell(absl::InfiniteFuture()); }

  // False: the line is left out, and counted.
  bool Admit(const std::string& tenant, absl::Time now);
  // Tells of those that were left out, of each tenant whose window is over.
  void Tell(absl::Time now);
  // When there is something to tell.
  absl::Time due() const;

 private:
  struct Window {
    absl::Time end;
    size_t written = 0;
    uint64_t others = 0;
  };

  const size_t most_in_window_;
  const std::string about_;
  const Write write_;
  // The windows of tenants that had a line lately.
  std::map<std::string, Window> windows_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_BYTES_TENANT_LINES_H_
