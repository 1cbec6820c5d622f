#include "deploy/launcher/vacancy_watch.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"

namespace farandole::launcher {
namespace {

// Between two questions; doubles, as a program may go on for hours after one of its workers has ended.
constexpr absl::Duration kFirstRest = absl::Milliseconds(200);
constexpr absl::Duration kLongestRest = absl::Seconds(5);

}  // namespace

VacancyWatch::VacancyWatch(JobLink* link, EventLoop* loop, std::function<absl::Duration()> now,
                           std::function<void(const JobLink::Vacancy&)> on_answer)
    : link_(link), loop_(loop), now_(std::move(now)), on_answer_(std::move(on_answer)) {}

void VacancyWatch::OnEnded() {
  if (link_ == nullptr || is_over_) return;
  if (calls_ == nullptr) {
    absl::StatusOr<std::unique_ptr<BackgroundCalls>> calls = BackgroundCalls::Make(loop_);
    // Without a descriptor the join timeout has the last word.
    if (!calls.ok()) return;
    calls_ = *std::move(calls);
  }
  rest_ = kFirstRest;
  ask_at_ = now_();
}

void VacancyWatch::Continue(const std::function<JobLink::Presence()>& find_presence) {
  if (deadline() > now_() || is_over_) return;
  ask_at_ = absl::InfiniteDuration();
  is_asking_ = true;
  calls_->Add([this, presence = find_presence()] {
    const absl::StatusOr<JobLink::Vacancy> answer = link_->EndIfVacant(presence);
    return [this, found = answer.ok() ? *answer : JobLink::Vacancy()]() mutable {
      is_asking_ = false;
      is_over_ = !found.sentence.empty() && !found.may_be_filled;
      if (!is_over_) ask_at_ = std::min(ask_at_, now_() + rest_);
      rest_ = std::min(2 * rest_, kLongestRest);
      if (found.may_be_filled && std::exchange(is_told_, true)) found = JobLink::Vacancy();
      on_answer_(found);
    };
  });
}

}  // namespace farandole::launcher
