#ifndef FARANDOLE_BASE_TEXT_PART_NAME_H_
#define FARANDOLE_BASE_TEXT_PART_NAME_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farandole {

// Names the job that some workers of a launch form by init(ranks), beside the launch's own job. `members` are their
// numbers in the launch, in the order of their ranks.
std::string NamePart(const std::string& job, const std::vector<int>& members);

// How NamePart names the members: "0-3-2"; if a job's name has no room for all, "0to99" or "1to99by2" if they are
// evenly spaced, and else their count and a hash, as "20of0123456789abcdef".
std::string NameMembers(const std::vector<int>& members);

// The members that NamePart has named, empty if only their hash is there. nullopt: `name` is no part of `job`.
std::optional<std::vector<int>> ReadPart(const std::string& job, absl::string_view name);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_PART_NAME_H_
