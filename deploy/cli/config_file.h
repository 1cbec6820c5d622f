#ifndef FARANDOLE_DEPLOY_CLI_CONFIG_FILE_H_
#define FARANDOLE_DEPLOY_CLI_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace farandole {

struct ConfigEntry {
  std::string key;
  std::string value;
  // Of the key, from 1.
  int line = 0;
};

// The entries of a YAML file that is one mapping of keys to single values, in their order; an empty file has none.
//   INVALID_ARGUMENT  it is no such mapping, or has a key twice: "FILE:LINE: ..." names the key where there is one
//   NOT_FOUND, PERMISSION_DENIED, RESOURCE_EXHAUSTED (1 MiB at most), UNAVAILABLE  it cannot be read (named)
absl::StatusOr<std::vector<ConfigEntry>> ReadConfigFile(const std::string& path);

// The entries of a YAML file whose keys stand for single values, or for mappings of such: "section.key".
// Errors as above.
absl::StatusOr<std::vector<ConfigEntry>> ReadSectionedFile(const std::string& path);

// `entries` as such a file, with each comment behind its value.
std::string ShowConfigFile(const std::vector<ConfigEntry>& entries, const std::vector<std::string>& comments);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_CONFIG_FILE_H_
