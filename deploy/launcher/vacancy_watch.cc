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
                           std::function<void(const std::string&)> on_answer)
    : link_(link), loop_(loop), now_(std::move(now)), on_answer_(std::move(on_answer)) {}

void VacancyWatch::OnEnded(const std::string& end) {
  if (link_ == nullptr || is_over_) return;
  if (calls_ == nullptr) {
    absl::StatusOr<std::unique_ptr<BackgroundCalls>> calls = BackgroundCalls::Make(loop_);
    // Without a descriptor the join timeout has the last word.
    if (!calls.ok()) return;
    calls_ = *std::move(calls);
  }
  end_ = end;
  rest_ = kFirstRest;
  ask_at_ = now_();
}

void VacancyWatch::Continue(const std::function<JobLink::Running()>& find_running) {
  if (deadline() > now_() || is_over_) return;
  ask_at_ = absl::InfiniteDuration();
  is_asking_ = true;
  calls_->Add([this, running = find_running(), end = end_] {
    const absl::StatusOr<std::string> ended = running.may_grow ? "" : link_->EndIfVacant(running, end);
    return [this, ended] {
      is_asking_ = false;
      is_over_ = ended.ok() && !ended->empty();
      if (!is_over_) ask_at_ = std::min(ask_at_, now_() + rest_);
      rest_ = std::min(2 * rest_, kLongestRest);
      on_answer_(is_over_ ? *ended : "");
    };
  });
}

}  // namespace farandole::launcher
