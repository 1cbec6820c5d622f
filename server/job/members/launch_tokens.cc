#include "server/job/members/launch_tokens.h"

#include "absl/algorithm/container.h"
#include "server/job/rules/own_launch.h"

namespace farandole {

void LaunchTokens::TakePart(const std::string& nonce, const std::string& token_id) {
  if (nonce != nonce_) launches_.clear();
  nonce_ = nonce;
  if (launches_.size() < kMostLaunches) launches_.insert(token_id);
}

void LaunchTokens::NoteWorker(const v1::Launch& run, const std::string& incarnation, const std::string& token_id,
                              const std::function<absl::flat_hash_set<std::string>()>& present) {
  if (token_id.empty() || token_id == run.token_id()) return;
  by_worker_[incarnation] = token_id;
  if (by_worker_.size() <= most_workers_) return;
  const absl::flat_hash_set<std::string> kept = present();
  absl::erase_if(by_worker_, [&](const auto& worker) { return !kept.contains(worker.first); });
  most_workers_ = kLeastWorkersKept + 2 * by_worker_.size();
}

bool LaunchTokens::HasLaunchedRun(const v1::Launch& run, const std::string& only_of_token) {
  return run.token_id().empty() || CheckOwnLaunch("", run, only_of_token).ok();
}

bool LaunchTokens::HasLaunched(const v1::Launch& run, const std::string& only_of_token,
                               const std::string& incarnation) const {
  if (HasLaunchedRun(run, only_of_token)) return true;
  const auto found = by_worker_.find(incarnation);
  return found != by_worker_.end() && found->second == only_of_token;
}

absl::Status LaunchTokens::CheckTakesPart(const std::string& job, const v1::Launch& run,
                                          const std::string& only_of_token) const {
  if (HasLaunchedRun(run, only_of_token)) return absl::OkStatus();
  if (run.nonce() == nonce_ && launches_.contains(only_of_token)) return absl::OkStatus();
  const auto is_its = [&](const auto& worker) { return worker.second == only_of_token; };
  return absl::c_any_of(by_worker_, is_its) ? absl::OkStatus() : CheckOwnLaunch(job, run, only_of_token);
}

}  // namespace farandole
