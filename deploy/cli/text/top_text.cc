#include "deploy/cli/text/top_text.h"

#include <algorithm>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/job_state.h"
#include "deploy/cli/text/diagnosis_text.h"
#include "deploy/cli/text/text_table.h"

namespace farandole {
namespace {

std::string Percent(double percent) { return absl::StrFormat("%.0f %%", percent); }

// Of a screen of `lines`, those that are left below `used`; 0: all.
size_t RowsLeft(size_t lines, size_t used, size_t rows) {
  return lines == 0 ? rows : std::min(rows, lines > used + 1 ? lines - used - 1 : 0);
}

// As wide as "slowed by    ".
constexpr size_t kLabel = 13;

// The lines of `text`, those that are longer than the screen broken between words. A character counts as its bytes.
std::string Wrap(const std::string& text, size_t columns) {
  if (columns <= 2 * kLabel) return text;
  std::string wrapped;
  for (const absl::string_view whole : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    std::string line(whole);
    for (size_t end; line.size() > columns; line = std::string(kLabel, ' ') + line.substr(end + 1)) {
      end = line.rfind(' ', columns);
      // There is no place for a break.
      if (end == std::string::npos || end <= kLabel) break;
      absl::StrAppend(&wrapped, line.substr(0, end), "\n");
    }
    absl::StrAppend(&wrapped, line, "\n");
  }
  return wrapped;
}

std::vector<std::string> RowOf(const v1::WorkerStatus& worker) {
  const v1::Measured& measured = worker.measured();
  const bool is_measured = measured.seconds() > 0;
  const auto shown = [is_measured](const std::string& text) { return is_measured ? text : std::string("-"); };
  return {absl::StrCat(worker.rank()),
          worker.member().hostname(),
          shown(absl::StrFormat("%.1f", is_measured ? static_cast<double>(measured.steps()) / measured.seconds() : 0)),
          shown(Percent(measured.own_percent())),
          shown(Percent(measured.waited_percent())),
          shown(Percent(measured.transfer_percent())),
          shown(Percent(measured.cpu_percent())),
          shown(absl::StrCat(measured.last_steps())),
          shown(absl::StrFormat("%.1f s", measured.alone_seconds())),
          absl::StrFormat("%.1f s ago", static_cast<double>(worker.silence_ms()) / 1000),
          worker.state()};
}

}  // namespace

std::string ShowTopJobs(const std::vector<v1::JobSummary>& jobs, absl::Time now, size_t lines) {
  std::ostringstream out;
  out << "farandole top, " << ShowTime(now) << ", " << jobs.size() << (jobs.size() == 1 ? " job" : " jobs") << "\n\n";
  std::vector<std::vector<std::string>> rows;
  const size_t count = RowsLeft(lines, 3, jobs.size());
  for (size_t at = 0; at < count; ++at) {
    const v1::JobSummary& job = jobs[at];
    const bool runs = job.state() == v1::JOB_STATE_RUNNING;
    const std::string why = !job.last_stall().empty() && runs ? absl::StrCat("stalled: ", job.last_stall())
                            : !job.blocker().empty()          ? job.blocker()
                            : runs                            ? std::string("-")
                                                              : job.reason();
    rows.push_back({job.job(), StateName(job.state()), absl::StrCat(job.size()),
                    runs && job.has_steps_per_second() ? absl::StrFormat("%.1f/s", job.steps_per_second()) : "-",
                    runs ? absl::StrFormat("%.1f/s", job.batches_per_second()) : "-",
                    ShowAge(now - absl::FromUnixMillis(job.created_unix_ms())), why});
  }
  PrintTable(
      {{"JOB"}, {"STATE"}, {"WORKERS", true}, {"STEPS", true}, {"COLLECTIVES", true}, {"AGE", true}, {"WHAT SLOWS IT"}},
      rows, out);
  return out.str();
}

std::string ShowTopJob(const v1::GetJobResponse& job, absl::Time now, size_t lines, size_t columns) {
  const v1::JobSummary& summary = job.summary();
  std::string head =
      absl::StrCat("job ", WithoutControls(summary.job()), ", ", StateName(summary.state()), ", epoch ",
                   summary.epoch(), ", ", summary.size(), summary.size() == 1 ? " worker" : " workers",
                   absl::StrFormat(", %.1f collectives/s, ", summary.batches_per_second()), ShowTime(now), "\n");
  if (summary.state() != v1::JOB_STATE_RUNNING) absl::StrAppend(&head, WithoutControls(summary.reason()), "\n");
  if (!summary.last_stall().empty()) {
    absl::StrAppend(&head, "stalled ", ShowAge(now - absl::FromUnixMillis(summary.last_stall_unix_ms())),
                    " ago: ", WithoutControls(summary.last_stall()), "\n");
  }
  absl::StrAppend(&head, ShowDiagnosis(job.diagnosis()));
  if (!job.flight().empty()) absl::StrAppend(&head, "collectives  ", WithoutControls(job.flight()), "\n");
  if (job.diagnosis().blockers_size() == 0) absl::StrAppend(&head, "slowed by    nothing that stands out\n");
  head = Wrap(head, columns);
  std::vector<const v1::WorkerStatus*> workers;
  for (const v1::WorkerStatus& worker : job.workers()) workers.push_back(&worker);
  std::stable_sort(workers.begin(), workers.end(), [](const auto* a, const auto* b) {
    const v1::Measured& one = a->measured();
    const v1::Measured& other = b->measured();
    if (one.alone_seconds() != other.alone_seconds()) return one.alone_seconds() > other.alone_seconds();
    return one.own_percent() > other.own_percent();
  });
  const size_t used = static_cast<size_t>(std::count(head.begin(), head.end(), '\n')) + 2;
  const size_t count = RowsLeft(lines, used, workers.size());
  std::vector<std::vector<std::string>> rows;
  for (size_t at = 0; at < count; ++at) rows.push_back(RowOf(*workers[at]));
  std::ostringstream out;
  out << head << "\n";
  PrintTable({{"RANK", true},
              {"HOST"},
              {"STEPS/S", true},
              {"OWN", true},
              {"WAITS", true},
              {"IN COLLECTIVES", true},
              {"CPU", true},
              {"LAST IN STEPS", true},
              {"AWAITED", true},
              {"HEARD OF", true},
              {"STATE"}},
             rows, out);
  if (count < workers.size()) out << "and " << workers.size() - count << " ranks more\n";
  return out.str();
}

std::string DrawOver(const std::string& text) {
  // To the corner; behind each line, and below the last, nothing remains.
  return absl::StrCat("\x1b[H", absl::StrReplaceAll(text, {{"\n", "\x1b[K\n"}}), "\x1b[K\x1b[J");
}

std::string FitToScreen(const std::string& text, size_t columns, size_t lines) {
  std::string fitted;
  size_t shown = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (shown++ == lines) break;
    size_t at = 0;
    for (size_t column = 0; at < line.size() && column < columns; ++column) {
      ++at;
      while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80) ++at;
    }
    absl::StrAppend(&fitted, shown > 1 ? "\n" : "", line.substr(0, at));
  }
  return fitted;
}

}  // namespace farandole
