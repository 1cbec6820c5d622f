#include "tests/simulation/elastic_process.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace farandole {
namespace {

constexpr int64_t kRetryNs = 200 * kMillisecond;
// As FARANDOLE_OUTAGE_LIMIT_MS.
constexpr int64_t kOutageLimitNs = 30 * kSecond;

}  // namespace

ElasticProcess::ElasticProcess(ElasticSite* site, int64_t number, std::string host)
    : site_(site), process_(std::make_shared<SimProcess>(site->time, number, std::move(host))) {
  process_->After(site_->time->Between(0, 100 * kMillisecond), [this] { Join(); });
}

void ElasticProcess::Join() {
  const uint64_t attempt = ++attempt_;
  if (IsCutOff()) return Retry([this] { Join(); });
  incarnation_ = absl::StrFormat("%032x", ++site_->incarnations);
  v1::JoinRequest join;
  join.set_job(site_->job);
  join.mutable_member()->set_incarnation(incarnation_);
  join.mutable_member()->set_host_id(process_->host());
  join.mutable_member()->set_hostname(process_->host());
  join.mutable_member()->set_pid(number());
  join.set_wanted_size(static_cast<uint32_t>(site_->first));
  join.set_launch_index(static_cast<uint32_t>(number() - 1));
  join.set_protocol_version(1);
  join.set_join_timeout_ms(60'000);
  join.set_stall_warning_ms(60'000);
  join.mutable_elastic()->set_min_size(static_cast<uint32_t>(site_->least));
  join.mutable_elastic()->set_max_size(static_cast<uint32_t>(site_->most));
  join.mutable_elastic()->set_join_window_ms(200);
  join.mutable_elastic()->set_shortage_limit_ms(600'000);
  join.set_predecessor(predecessor_);
  site_->coordinator->Call(
      process_,
      [join](CallId call) {
        return Event(JoinRequested{call, join});
      },
      [this, attempt](const Reply& reply) { OnJoined(attempt, reply); });
}

void ElasticProcess::OnJoined(uint64_t attempt, const Reply& reply) {
  if (attempt != attempt_) return;
  if (reply.status.ok()) return Open();
  // Drained, or the job is over.
  if (absl::IsCancelled(reply.status)) return process_->Die();
  if (absl::IsUnavailable(reply.status)) return Retry([this] { Join(); });
  if (absl::IsAborted(reply.status)) return JoinAnew(kRetryNs);
  site_->Violate(absl::StrCat(Describe(), " may not join: ", reply.status.ToString()));
}

void ElasticProcess::Open() {
  const uint64_t attempt = ++attempt_;
  if (IsCutOff()) return Retry([this] { Open(); });
  v1::Hello hello;
  hello.set_job(site_->job);
  hello.set_incarnation(incarnation_);
  hello.set_epoch(epoch_);
  SimCoordinator::Listener listener;
  listener.process = process_;
  listener.on_message = [this, attempt](const v1::CoordinatorMessage& message) {
    if (attempt == attempt_) OnMessage(message);
  };
  listener.on_closed = [this, attempt](const absl::Status& status) { OnClosed(attempt, status); };
  stream_ = site_->coordinator->Open(std::move(hello), std::move(listener));
}

void ElasticProcess::OnMessage(const v1::CoordinatorMessage& message) {
  away_since_ns_ = -1;
  if (message.has_epoch_formed()) {
    const v1::Epoch& formed = message.epoch_formed();
    std::unique_ptr<ElasticEpoch>& epoch = site_->epochs[formed.number()];
    if (epoch == nullptr) epoch = std::make_unique<ElasticEpoch>(site_, formed);
    if (epoch_ == formed.number()) return;
    predecessor_ = incarnation_;
    epoch_ = formed.number();
    rank_ = epoch->Enter(this, incarnation_, formed);
  } else if (message.has_epoch_ended()) {
    if (message.epoch_ended().job_ended()) return process_->Die();
    // A program may notice late.
    if (message.epoch_ended().epoch() == epoch_) {
      JoinAnew(site_->time->OneIn(20) ? site_->time->Between(0, 2 * kSecond) : kMillisecond);
    }
  } else if (message.has_change_wanted()) {
    is_asked_ = true;
  }
}

void ElasticProcess::OnClosed(uint64_t attempt, const absl::Status& status) {
  if (attempt != attempt_) return;
  stream_ = 0;
  if (absl::IsUnavailable(status)) return Retry([this] { Open(); });
  if (absl::IsCancelled(status)) return process_->Die();
  JoinAnew(kMillisecond);
}

void ElasticProcess::Retry(std::function<void()> again) {
  const int64_t now_ns = VirtualTime::NowNs();
  if (away_since_ns_ < 0) away_since_ns_ = now_ns;
  if (now_ns - away_since_ns_ > kOutageLimitNs) return Kill();
  process_->After(kRetryNs, [this, attempt = attempt_, again = std::move(again)] {
    if (attempt == attempt_) again();
  });
}

void ElasticProcess::JoinAnew(int64_t delay_ns) {
  if (IsMember()) site_->epochs.at(epoch_)->Leave(rank_);
  if (epoch_ != 0) previous_epoch_ = epoch_;
  rank_ = -1;
  epoch_ = 0;
  is_asked_ = false;
  // The stream stays, as a sign of life, until the process has joined again.
  const uint64_t attempt = ++attempt_;
  process_->After(delay_ns, [this, attempt] {
    if (attempt == attempt_) Join();
  });
}

void ElasticProcess::Kill() {
  if (process_->is_dead()) return;
  if (stream_ != 0 && !IsCutOff()) site_->coordinator->End(stream_, "connection reset");
  process_->Die();
  if (IsMember()) site_->epochs.at(epoch_)->OnDeath(rank_);
}

void ElasticProcess::Stop() {
  is_disturbed_ = true;
  process_->Stop();
}

void ElasticProcess::LoseStream() {
  is_disturbed_ = true;
  if (stream_ == 0 || process_->is_dead()) return;
  site_->coordinator->End(std::exchange(stream_, 0), "its stream broke");
  ++attempt_;
  Retry([this] { Open(); });
}

void ElasticProcess::MoveOn() {
  v1::WorkerMessage message;
  message.mutable_leave()->set_epoch(epoch_);
  message.mutable_leave()->set_returns(true);
  Say(std::move(message));
  JoinAnew(site_->time->Between(0, 5 * kMillisecond));
}

void ElasticProcess::Say(v1::WorkerMessage message) {
  if (stream_ != 0 && !IsCutOff()) site_->coordinator->Send(stream_, std::move(message));
}

std::string ElasticProcess::Describe() const {
  return absl::StrCat("process ", number(), " on ", process_->host(), " (epoch ", epoch_, ", rank ", rank_, ", ",
                      steps_, " steps, ",
                      process_->is_dead()      ? "dead"
                      : process_->is_stopped() ? "stopped"
                      : stream_ == 0           ? "no stream"
                                               : "stream open",
                      ")");
}

}  // namespace farandole
