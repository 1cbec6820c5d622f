#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/version.h"
#include "deploy/bench/measure.h"
#include "deploy/bench/options.h"
#include "deploy/bench/report.h"
#include "deploy/cli/commands.h"
#include "nlohmann/json.hpp"
#include "web/job_json.h"
#include "worker/farandole.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFailed = 1;
constexpr int kWrongCommandLine = 2;

void Complain(absl::string_view sentence) { std::cerr << "farandole bench: " << sentence << "\n"; }

absl::Status WriteJson(const std::string& path, const Json& rows) {
  const Json all = {
      {"version", kVersion}, {"ranks", farandole_size()}, {"hosts", farandole_cross_size()}, {"rows", rows}};
  std::ofstream file(path);
  file << ShowJson(all, 2) << "\n";
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("--json ", path, " cannot be written: ", strerror(errno)));
}

// Rank 0 tells; the others only take part. The number of wrong elements.
absl::StatusOr<int64_t> MeasureAll(const bench::BenchOptions& options, const std::vector<bench::Case>& cases) {
  const bool tells = farandole_rank() == 0;
  if (tells) {
    std::cout << absl::StreamFormat(
                     "# farandole %s, ranks: %d, ranks a host: %d, in place, time of the slowest rank\n%s", kVersion,
                     farandole_size(), farandole_local_size(), bench::ReportTitle())
              << std::endl;
  }
  Json rows = Json::array();
  bench::Limits limits;
  limits.duration = absl::Seconds(options.seconds);
  limits.most_steps = options.max_steps;
  int64_t wrong = 0;
  for (const bench::Case& each : cases) {
    const absl::StatusOr<bench::Measurement> measured = bench::Measure(each, limits);
    if (!measured.ok()) return measured.status();
    if (tells) std::cout << bench::ReportLine(*measured) << std::endl;
    rows.push_back(bench::ReportJson(*measured));
    wrong += measured->wrong;
  }
  if (!tells || options.json.empty()) return wrong;
  if (absl::Status status = WriteJson(options.json, rows); !status.ok()) return status;
  return wrong;
}

int RunBench(const bench::BenchOptions& options) {
  // Errors of the command line are reported before anything starts.
  if (const auto cases = bench::ListCases(options, 1); !cases.ok()) {
    Complain(cases.status().message());
    return kWrongCommandLine;
  }
  if (farandole_init(nullptr, nullptr) != FARANDOLE_OK) {
    Complain(farandole_last_error());
    return kFailed;
  }
  const absl::Cleanup leave = [] { farandole_shutdown(nullptr); };
  if (farandole_size() == 1) Complain("this is a job of one rank; start several: farandole run -np 2 farandole bench");
  const absl::StatusOr<std::vector<bench::Case>> cases = bench::ListCases(options, farandole_size());
  const absl::StatusOr<int64_t> wrong = cases.ok() ? MeasureAll(options, *cases) : cases.status();
  if (!wrong.ok()) {
    Complain(wrong.status().message());
    return kFailed;
  }
  if (*wrong > 0) Complain(absl::StrCat(*wrong, " elements were wrong"));
  return *wrong > 0 ? kFailed : 0;
}

}  // namespace

void AddBenchCommand(CLI::App* app, int* exit_code) {
  CLI::App* bench = app->add_subcommand(
      "bench", "Measure collectives between the ranks of a job: farandole run -np 2 farandole bench");
  // shared: with the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<bench::BenchOptions>();
  bench::AddBenchOptions(bench, options.get());
  bench->callback([options, exit_code] { *exit_code = RunBench(*options); });
}

}  // namespace farandole
