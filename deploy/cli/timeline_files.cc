#include "deploy/cli/timeline_files.h"

#include <errno.h>
#include <string.h>

#include <fstream>
#include <iostream>
#include <ostream>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

// The events of a timeline, each on a line as it was written.
absl::StatusOr<std::vector<std::string>> ReadEvents(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", strerror(errno)));
  std::vector<std::string> events;
  int number = 0, bad = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    absl::string_view event = absl::StripAsciiWhitespace(line);
    absl::ConsumeSuffix(&event, ",");
    if (event.empty() || (number == 1 && event == "[") || event == "]") continue;
    // Only the last line may have been cut off.
    if (bad > 0) break;
    const auto json = nlohmann::json::parse(event, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("ph")) {
      events.emplace_back(event);
    } else {
      bad = number;
    }
  }
  if (bad > 0 && (bad < number || events.empty())) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", bad, ": is no event of a timeline"));
  }
  return events;
}

}  // namespace

absl::Status MergeTimelines(const std::vector<std::string>& paths, const std::string& output) {
  std::vector<std::string> all;
  for (const std::string& path : paths) {
    absl::StatusOr<std::vector<std::string>> events = ReadEvents(path);
    if (!events.ok()) return events.status();
    all.insert(all.end(), std::make_move_iterator(events->begin()), std::make_move_iterator(events->end()));
  }
  std::ofstream file;
  if (!output.empty()) file.open(output);
  std::ostream& to = output.empty() ? std::cout : file;
  const char* separator = "[\n";
  for (const std::string& event : all) {
    to << separator << event;
    separator = ",\n";
  }
  to << (all.empty() ? "[\n]\n" : "\n]\n") << std::flush;
  if (to) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot write ", output.empty() ? "to standard output" : output, ": ", strerror(errno)));
}

}  // namespace farandole
