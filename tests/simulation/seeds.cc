#include "tests/simulation/seeds.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farandole {

bool Seeds::Take(absl::string_view argument) {
  if (absl::ConsumePrefix(&argument, "--seed=")) {
    is_told = true;
    return absl::SimpleAtoi(argument, &first) && absl::SimpleAtoi(argument, &last);
  }
  if (!absl::ConsumePrefix(&argument, "--seeds=")) return false;
  const std::pair<std::string, std::string> range = absl::StrSplit(argument, absl::MaxSplits('-', 1));
  return absl::SimpleAtoi(range.first, &first) && absl::SimpleAtoi(range.second, &last);
}

}  // namespace farandole
