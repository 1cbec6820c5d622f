#include "tools/reference/reference.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "deploy/cli/serve_options.h"
#include "server/metrics/metrics.h"
#include "worker/launch/options.h"

namespace farandole {
namespace {

constexpr char kGenerated[] =
    "Written by `bazel run //tools/reference:write_reference -- \"$PWD/docs\"` from the tables in the code.\n";

const char* KindOf(MetricRow::Kind kind) {
  switch (kind) {
    case MetricRow::Kind::kCounter:
      return "counter";
    case MetricRow::Kind::kGauge:
      return "gauge";
    case MetricRow::Kind::kHistogram:
      return "histogram";
  }
  return "";
}

// A table's cell: a bar in it would end it.
std::string Cell(const std::string& text) { return absl::StrReplaceAll(text, {{"|", "\\|"}}); }
std::string Code(const std::string& text) { return text.empty() ? "" : absl::StrCat("`", Cell(text), "`"); }

constexpr char kMetricsIntroduction[] = R"(
`farandole serve --http HOST:PORT` serves them at `/metrics` in Prometheus' text format, to every client that sends a
token of a cluster operator or of root (`Authorization: Bearer TOKEN`). Counters begin at 0 when the coordinator starts. No metric has a label for
ranks.

| metric | kind | labels | meaning |
|---|---|---|---|
)";

}  // namespace

std::string MetricsPage() {
  std::string page = absl::StrCat("# Metrics\n\nFor operators who watch a coordinator with Prometheus.\n\n", kGenerated,
                                  kMetricsIntroduction);
  for (const MetricRow& row : MetricRows()) {
    absl::StrAppend(&page, "| ", Code(row.name), " | ", KindOf(row.kind), " | ", row.labels, " | ", Cell(row.help),
                    " |\n");
  }
  return page;
}

std::string SettingsPage() {
  std::string page = absl::StrCat(
      "# Settings\n\nFor people who configure a coordinator, a launch or a worker.\n\n", kGenerated,
      "\n## farandole serve\nA flag goes before its environment variable, that before the file of `--config FILE` "
      "(`FARANDOLE_CONFIG`), that before the\ndefault. The file is YAML, a line `key: value` for each setting, where "
      "the key is the "
      "flag without its dashes.\n`farandole serve --print-config` prints all settings and where they come from.\n\n"
      "| flag | variable | value | default | meaning |\n|---|---|---|---|---|\n");
  for (const ServeSetting& setting : ServeSettings()) {
    const std::string range = setting.number == nullptr ? "" : absl::StrCat(", ", setting.least, " to ", setting.most);
    absl::StrAppend(&page, "| ", Code(setting.flag), " | ", Code(setting.variable), " | ", Cell(setting.unit), range,
                    " | ", Code(setting.default_value), " | ", Cell(setting.meaning), " |\n");
  }
  absl::StrAppend(
      &page,
      "\n## Workers\nThe worker library reads these when a program calls `init()`; an argument of `init()` goes before "
      "its variable.\n`farandole run` sets those that tell a worker where it belongs. The Python package's own ones "
      "are in\n`sdk/python/farandole/_options.py`; those of the launcher are in `farandole run "
      "--help`.\n\n| variable | value | default | meaning |\n|---|---|---|---|\n");
  for (const WorkerSetting& setting : WorkerSettings()) {
    absl::StrAppend(&page, "| ", Code(setting.variable), " | ", setting.range, " | ", Code(setting.default_value),
                    " | ", Cell(setting.meaning), " |\n");
  }
  return page;
}

}  // namespace farandole
