#include "web/files/job_timeline.h"

#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace farandole {
namespace {

// timeline.proto.
constexpr uint32_t kMostLinesBytes = 8 << 20;
// Of two quartz clocks, some times as much as they usually have.
constexpr int64_t kMostDriftPerMillion = 100;
constexpr char kTime[] = "\"ts\":";
// Names of rows that are looked for, by 8 bytes of each: workers may send any number. A name beyond them comes again
// with each part.
constexpr size_t kMostNames = 1 << 16;
// Workers may send any numbers: these are the largest that are reckoned with, so that no sum overflows. Times since
// 1970 in this century are below half of the first.
constexpr int64_t kMostNs = 4'000'000'000'000'000'000;
constexpr uint64_t kMostErrorNs = 1'000'000'000'000'000;

int64_t Bounded(int64_t ns) { return std::clamp(ns, -kMostNs, kMostNs); }

// A host's clock against the coordinator's.
struct HostClock {
  int64_t ahead_ns = 0;
  int64_t error_ns = 0;  // 0: not known
  int64_t at_ns = 0;
  // Of its parts.
  int64_t first_ns = INT64_MAX;
  int64_t last_ns = INT64_MIN;

  // Over all of its parts.
  int64_t MostError() const {
    const int64_t age_ns = std::max(std::abs(at_ns - first_ns), std::abs(last_ns - at_ns));
    return error_ns + age_ns / 1'000'000 * kMostDriftPerMillion;
  }
};

std::map<std::string, HostClock> ClocksOf(const std::vector<v1::TimelinePart>& parts) {
  std::map<std::string, HostClock> clocks;
  for (const v1::TimelinePart& part : parts) {
    HostClock& clock = clocks[part.host_id()];
    const v1::TimelineChunk& chunk = part.chunk();
    const int64_t sent_ns = Bounded(chunk.sent_ns());
    clock.first_ns = std::min(clock.first_ns, sent_ns);
    clock.last_ns = std::max(clock.last_ns, sent_ns);
    const auto error_ns = static_cast<int64_t>(std::min<uint64_t>(chunk.error_ns(), kMostErrorNs));
    if (error_ns == 0 || (clock.error_ns != 0 && error_ns >= clock.error_ns)) continue;
    clock.ahead_ns = Bounded(chunk.ahead_ns());
    clock.error_ns = error_ns;
    clock.at_ns = sent_ns;
  }
  return clocks;
}

// Between the two hosts whose clocks are known worst.
int64_t ErrorBetween(const std::map<std::string, HostClock>& clocks) {
  std::vector<int64_t> errors;
  for (const auto& [host, clock] : clocks) errors.push_back(clock.MostError());
  std::sort(errors.rbegin(), errors.rend());
  return errors.size() < 2 ? 0 : errors[0] + errors[1];
}

absl::StatusOr<std::string> LinesOf(const v1::TimelinePart& part) {
  const std::string& packed = part.chunk().lines_zlib();
  uLongf bytes = std::min(part.chunk().lines_bytes(), kMostLinesBytes);
  std::string lines(bytes, '\0');
  const int result = uncompress(reinterpret_cast<Bytef*>(lines.data()), &bytes,
                                reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  if (result == Z_OK && bytes == part.chunk().lines_bytes()) return lines;
  return absl::DataLossError(
      absl::StrCat("part ", part.number(), " of the timeline, of rank ", part.rank(), ", cannot be unpacked"));
}

// Of "12.345" microseconds; none: it is no time of an event.
std::optional<int64_t> NsOf(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  int64_t micros = 0, thousandths = 0;
  if (!absl::SimpleAtoi(parts[0], &micros) || micros < 0 || micros > kMostNs / 1000) return std::nullopt;
  if (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &thousandths)) return std::nullopt;
  if (parts.size() > 2 || thousandths < 0 || thousandths > 999) return std::nullopt;
  return micros * 1000 + thousandths;
}

// Writes an event's line with its time in microseconds, "ts":12.345, moved by `ahead_ns`, and returns how many bytes
// that was. A line without such a time stays.
size_t WriteMoved(absl::string_view line, int64_t ahead_ns, std::ostream& to) {
  const auto write = [&to](absl::string_view text) {
    to.write(text.data(), static_cast<std::streamsize>(text.size()));
    return text.size();
  };
  const size_t begin = line.find(kTime);
  if (begin == absl::string_view::npos) return write(line);
  const size_t number = begin + sizeof(kTime) - 1;
  const size_t end = std::min(line.find_first_not_of("0123456789.-", number), line.size());
  const std::optional<int64_t> own_ns = NsOf(line.substr(number, end - number));
  if (!own_ns.has_value() || *own_ns + ahead_ns < 0) return write(line);
  const int64_t ns = *own_ns + ahead_ns;
  return write(line.substr(0, number)) + write(absl::StrFormat("%d.%03d", ns / 1000, ns % 1000)) +
         write(line.substr(end));
}

}  // namespace

absl::StatusOr<JobTimeline> WriteJobTimeline(const v1::GetTimelineResponse& about,
                                             const std::vector<v1::TimelinePart>& parts, std::ostream& to,
                                             uint64_t most_bytes) {
  const std::map<std::string, HostClock> clocks = ClocksOf(parts);
  JobTimeline written;
  written.error_ns = ErrorBetween(clocks);
  to << "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"clock\":\"the coordinator's, Unix time\","
     << "\"error_between_hosts_us\":" << written.error_ns / 1000
     << ",\"lost_events\":" << about.dropped() + about.forgotten() << "},\"traceEvents\":[";
  absl::string_view separator = "\n";
  uint64_t bytes = 0;
  // Each part has the names of its rows and process.
  absl::flat_hash_set<size_t> named;
  for (const v1::TimelinePart& part : parts) {
    const HostClock& clock = clocks.at(part.host_id());
    if (clock.error_ns == 0) {
      written.left_out += part.chunk().events();
      continue;
    }
    absl::StatusOr<std::string> lines = LinesOf(part);
    if (!lines.ok()) return lines.status();
    written.ranks.insert(part.rank());
    written.hosts.insert(part.host_id());
    written.events += part.chunk().events();
    for (const absl::string_view line : absl::StrSplit(*lines, ",\n")) {
      const bool is_name = absl::StartsWith(line, "{\"ph\":\"M\"");
      // It says besides when it was written.
      const absl::string_view what = line.substr(0, line.find(",\"start_time_since_epoch"));
      if (is_name) {
        const size_t name = absl::Hash<absl::string_view>()(what);
        if (named.contains(name)) continue;
        if (named.size() < kMostNames) named.insert(name);
      }
      to << separator;
      bytes += separator.size() + WriteMoved(line, clock.ahead_ns, to);
      if (bytes > most_bytes)
        return absl::OutOfRangeError(absl::StrCat("the timeline's file has more than ", most_bytes, " bytes"));
      separator = ",\n";
    }
  }
  to << "\n]}\n";
  return written;
}

}  // namespace farandole
