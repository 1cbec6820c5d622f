#include "server/edge/routes/job_list.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/job_state.h"
#include "server/edge/pages/page.h"
#include "server/edge/view_json.h"
#include "web/form_text.h"

namespace farandole {
namespace {

constexpr size_t kMostSearchBytes = 256;

// Lower first: what needs somebody to look, what runs, what is over; within each the newest come first.
int Urgency(const v1::JobSummary& job) {
  if (job.state() == v1::JOB_STATE_RUNNING) return job.blocker().empty() ? 2 : 0;
  if (job.state() == v1::JOB_STATE_FORMING || job.state() == v1::JOB_STATE_QUEUED) return 1;
  return job.state() == v1::JOB_STATE_FAILED ? 3 : 4;
}

// A job, and what sorts it before its place.
using Ranked = std::pair<int, const JobRegistry::Shown*>;

bool IsBefore(const Ranked& a, const Ranked& b) {
  const v1::JobSummary& first = **a.second;
  const v1::JobSummary& second = **b.second;
  const auto key = [](int urgency, const v1::JobSummary& job) {
    return std::make_tuple(urgency, -job.created_unix_ms(), absl::string_view(job.tenant()),
                           absl::string_view(job.job()));
  };
  return key(a.first, first) < key(b.first, second);
}

}  // namespace

TextSearch::TextSearch(absl::string_view text) : text_(absl::AsciiStrToLower(text)), next_(text_.size() + 1, 0) {
  for (size_t at = 1, agree = 0; at < text_.size(); ++at) {
    while (agree > 0 && text_[at] != text_[agree]) agree = next_[agree];
    if (text_[at] == text_[agree]) ++agree;
    next_[at + 1] = agree;
  }
}

bool TextSearch::IsIn(absl::Span<const absl::string_view> parts) const {
  size_t agree = 0;
  if (text_.empty()) return true;
  for (const absl::string_view part : parts) {
    for (const char c : part) {
      const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
      while (agree > 0 && lower != text_[agree]) agree = next_[agree];
      if (lower == text_[agree] && ++agree == text_.size()) return true;
    }
  }
  return false;
}

FoundJobs FindJobs(absl::Span<const JobRegistry::Shown> jobs, const std::string& query) {
  std::vector<std::string> wanted = QueryValues(query, "state");
  std::sort(wanted.begin(), wanted.end());
  const TextSearch search(QueryValue(query, "search").substr(0, kMostSearchBytes));
  const bool searches = !search.IsIn({});
  const bool is_by_urgency = QueryValue(query, "order") == "urgency";
  // Of each state whether it is wanted, and how many jobs have it.
  std::map<v1::JobState, std::pair<bool, size_t>> states;
  FoundJobs found;
  std::vector<Ranked> ranked;
  for (const JobRegistry::Shown& job : jobs) {
    const auto [state, is_new] = states.try_emplace(job->state());
    if (is_new) {
      state->second.first = wanted.empty() || std::binary_search(wanted.begin(), wanted.end(), StateName(job->state()));
    }
    ++state->second.second;
    if (!state->second.first) continue;
    if (searches) {
      const absl::string_view parts[] = {job->tenant(), "/", job->job(), " ", job->reason(), " ", job->blocker()};
      for (const absl::string_view part : parts) found.searched_bytes += part.size();
      if (!search.IsIn(parts)) continue;
    }
    ranked.emplace_back(is_by_urgency ? Urgency(*job) : 0, &job);
  }
  for (const auto& [state, of_state] : states) found.states[StateName(state)] += of_state.second;
  found.found = ranked.size();
  const RowRange rows = RowsOf(query, ranked.size(), kMostOfPage, kMostOfPage);
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(rows.end), ranked.end(), IsBefore);
  for (size_t i = rows.first; i < rows.end; ++i) found.rows.push_back(*ranked[i].second);
  return found;
}

}  // namespace farandole
