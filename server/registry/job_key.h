#ifndef FARANDOLE_SERVER_REGISTRY_JOB_KEY_H_
#define FARANDOLE_SERVER_REGISTRY_JOB_KEY_H_

#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

// Which job: its name is unique within its tenant. Neither part contains a '/'.
struct JobKey {
  std::string tenant;
  std::string job;

  // "TENANT/JOB": in logs, in the keys of rows, and as the owner's name in the store.
  std::string Text() const { return absl::StrCat(tenant, "/", job); }

  friend bool operator==(const JobKey& a, const JobKey& b) { return a.job == b.job && a.tenant == b.tenant; }
  friend bool operator<(const JobKey& a, const JobKey& b) {
    return std::tie(a.tenant, a.job) < std::tie(b.tenant, b.job);
  }
  template <typename H>
  friend H AbslHashValue(H state, const JobKey& key) {
    return H::combine(std::move(state), key.tenant, key.job);
  }
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_JOB_KEY_H_
