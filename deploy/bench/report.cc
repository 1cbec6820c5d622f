#include "deploy/bench/report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/bench/options.h"

namespace farandole::bench {
namespace {

double Microseconds(absl::Duration duration) { return absl::ToDoubleMicroseconds(duration); }

// Enough digits for 0.2 us, and none too many for 2 s.
std::string ShowMicroseconds(absl::Duration duration) {
  const double value = Microseconds(duration);
  return absl::StrFormat("%.*f", value < 100 ? 2 : value < 10'000 ? 1 : 0, value);
}

}  // namespace

std::string ReportTitle() {
  return absl::StrFormat(
      "# %10s %10s %7s %5s %13s %4s %11s %11s %10s %10s %7s %8s\n# %10s %10s %7s %5s %13s %4s %11s %11s %10s %10s %7s "
      "%8s",
      "size", "count", "tensors", "type", "op", "red", "time", "p99", "algbw", "busbw", "#wrong", "steps", "(B)",
      "(elements)", "", "", "", "", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "");
}

std::string ReportLine(const Measurement& measurement) {
  const Case& what = measurement.what;
  return absl::StrFormat("  %10d %10d %7d %5s %13s %4s %11s %11s %10.3f %10.3f %7d %8d", what.Bytes(measurement.size),
                         what.count, what.tensors, ShortName(what.dtype), TraitsOf(what.op).name,
                         TraitsOf(what.op).reduces ? Name(what.reduce) : "-", ShowMicroseconds(measurement.median),
                         ShowMicroseconds(measurement.p99), measurement.AlgorithmBandwidth() / 1e9,
                         measurement.BusBandwidth() / 1e9, measurement.wrong, measurement.steps);
}

nlohmann::ordered_json ReportJson(const Measurement& measurement) {
  const Case& what = measurement.what;
  nlohmann::ordered_json json = {{"op", std::string(TraitsOf(what.op).name)}, {"dtype", ShortName(what.dtype)}};
  if (TraitsOf(what.op).reduces) json["reduce"] = std::string(Name(what.reduce));
  json.update(nlohmann::ordered_json{{"ranks", measurement.size},
                                     {"tensors", what.tensors},
                                     {"arena", what.in_arena},
                                     {"bytes", what.Bytes(measurement.size)},
                                     {"count", what.count},
                                     {"steps", measurement.steps},
                                     {"median_us", Microseconds(measurement.median)},
                                     {"p99_us", Microseconds(measurement.p99)},
                                     {"least_us", Microseconds(measurement.least)},
                                     {"algbw_gb_s", measurement.AlgorithmBandwidth() / 1e9},
                                     {"busbw_gb_s", measurement.BusBandwidth() / 1e9},
                                     {"wrong", measurement.wrong}});
  return json;
}

}  // namespace farandole::bench
