#include "checkpoint/gate.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace farandole {
namespace {

constexpr char kDefaultName[] = "checkpoint";
constexpr size_t kMostNameBytes = 256;
constexpr size_t kMostPathBytes = 4096;
constexpr size_t kMostKeyBytes = 64;
// Leaves room to count on from there.
constexpr uint64_t kMostTokenOnDisk = uint64_t{1} << 62;

// Of a checkpoint in the catalogue beside its message: its places in both orders.
constexpr size_t kPlaceBytes = 128;
// Most that one commit makes the catalogue forget.
constexpr size_t kMostForgotten = 8;
// Among so many of the oldest, the only ones of their names are spared. A search through all of 10,000 names takes
// milliseconds.
constexpr size_t kMostSpared = 1000;

size_t BytesOf(const v1::Checkpoint& checkpoint) { return kPlaceBytes + checkpoint.SpaceUsedLong(); }

// For sentences: on one line, and short.
std::string Show(absl::string_view text) {
  constexpr size_t kMostShown = 200;
  return absl::StrCat(absl::Utf8SafeCHexEscape(text.substr(0, kMostShown)), text.size() > kMostShown ? "..." : "");
}

absl::Status CheckNameAndStep(const std::string& name, int64_t step) {
  if (name.size() > kMostNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name has ", name.size(), " bytes; it must have 1 to ", kMostNameBytes));
  }
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("step is ", step, "; it must be at least 0"));
  return absl::OkStatus();
}

std::string Describe(const std::string& name, int64_t step) { return absl::StrCat(Show(name), " at step ", step); }

absl::Status CheckFile(const v1::Checkpoint& checkpoint) {
  const std::string& path = checkpoint.path();
  if (path.size() > kMostPathBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("path has ", path.size(), " bytes; ", kMostPathBytes, " is the most"));
  }
  if (path.empty() || path[0] != '/')
    return absl::InvalidArgumentError(absl::StrCat("path is '", Show(path), "'; it must be absolute"));
  const std::string mark = absl::StrCat(".t", checkpoint.token(), ".");
  if (!absl::StrContains(path.substr(path.rfind('/') + 1), mark)) {
    return absl::InvalidArgumentError(absl::StrCat("path is ", Show(path), "; the file's name must contain '", mark,
                                                   "', the token that it is written under"));
  }
  if (checkpoint.sha256().size() != 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("sha256 has ", checkpoint.sha256().size(), " bytes; it must have 32"));
  }
  return absl::OkStatus();
}

}  // namespace

CheckpointGate::CheckpointGate(absl::string_view tenant, absl::string_view job)
    : prefix_(absl::StrCat(tenant, "/", job, "/")) {}

std::string CheckpointGate::NameOrDefault(const std::string& name) { return name.empty() ? kDefaultName : name; }

absl::Status CheckpointGate::Load(absl::string_view key, const std::string& value) {
  if (absl::StartsWith(key, "grant/")) {
    v1::GrantRecord grant;
    if (!grant.ParseFromString(value) || grant.token() == 0)
      return absl::DataLossError(absl::StrCat("row ", key, " is not a grant"));
    SkipTokens(grant.token());
    v1::GrantRecord& latest = grants_[grant.name()];
    if (grant.token() > latest.token()) latest = std::move(grant);
    return absl::OkStatus();
  }
  v1::Checkpoint checkpoint;
  if (!checkpoint.ParseFromString(value) || checkpoint.token() == 0) {
    return absl::DataLossError(absl::StrCat("row ", key, " is not a checkpoint"));
  }
  SkipTokens(checkpoint.token());
  const NameAndStep id(checkpoint.name(), checkpoint.step());
  last_commit_unix_ms_ = std::max(last_commit_unix_ms_, checkpoint.committed_unix_ms());
  Enter(id, std::move(checkpoint));
  return absl::OkStatus();
}

void CheckpointGate::Enter(const NameAndStep& id, v1::Checkpoint checkpoint) {
  Leave(id);
  bytes_ += BytesOf(checkpoint);
  by_commit_[{checkpoint.committed_unix_ms(), checkpoint.token()}] = id;
  catalogue_[id] = std::move(checkpoint);
}

void CheckpointGate::Leave(const NameAndStep& id) {
  const auto found = catalogue_.find(id);
  if (found == catalogue_.end()) return;
  bytes_ -= BytesOf(found->second);
  by_commit_.erase({found->second.committed_unix_ms(), found->second.token()});
  catalogue_.erase(found);
}

bool CheckpointGate::WouldGrow(const v1::BeginCheckpointRequest& request) const {
  const std::string name = NameOrDefault(request.name());
  const auto granted = grants_.find(name);
  const bool is_granted = granted != grants_.end() && granted->second.idempotency_key() == request.idempotency_key();
  const bool is_full = catalogue_.size() >= kMostCheckpoints || bytes_ + kMostBytesOfOne > kMostBytes;
  return !is_granted && !is_full && !catalogue_.contains(NameAndStep(name, request.step()));
}

absl::StatusOr<v1::BeginCheckpointResponse> CheckpointGate::Begin(const v1::BeginCheckpointRequest& request,
                                                                  const Present& present, Writes* writes) {
  const std::string name = NameOrDefault(request.name());
  if (absl::Status status = CheckGrant(request, name, present); !status.ok()) return status;
  v1::BeginCheckpointResponse response;
  const auto granted = grants_.find(name);
  if (granted != grants_.end()) {
    const v1::GrantRecord& grant = granted->second;
    if (grant.idempotency_key() == request.idempotency_key() && grant.incarnation() == request.incarnation()) {
      if (grant.step() != request.step()) {
        return absl::InvalidArgumentError(absl::StrCat("idempotency_key was used for step ", grant.step(),
                                                       " before, and now for step ", request.step()));
      }
      response.set_token(grant.token());
      return response;
    }
    writes->deletes.push_back(GrantKey(grant.token()));
  } else if (grants_.size() >= kMostGrants && !DropFencedGrant(present, writes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("checkpoints of ", grants_.size(), " names are being written; ", kMostGrants, " is the most"));
  }
  SkipTokens(request.greatest_token_on_disk());
  v1::GrantRecord& grant = grants_[name];
  grant.set_token(++last_token_);
  grant.set_name(name);
  grant.set_step(request.step());
  grant.set_incarnation(request.incarnation());
  grant.set_epoch(request.epoch());
  grant.set_idempotency_key(request.idempotency_key());
  writes->puts.emplace_back(GrantKey(grant.token()), grant.SerializeAsString());
  response.set_token(grant.token());
  return response;
}

bool CheckpointGate::DropFencedGrant(const Present& present, Writes* writes) {
  for (auto it = grants_.begin(); it != grants_.end(); ++it) {
    if (it->second.epoch() == present.epoch) continue;
    writes->deletes.push_back(GrantKey(it->second.token()));
    grants_.erase(it);
    return true;
  }
  return false;
}

absl::Status CheckpointGate::CheckGrant(const v1::BeginCheckpointRequest& request, const std::string& name,
                                        const Present& present) const {
  if (absl::Status status = CheckNameAndStep(name, request.step()); !status.ok()) return status;
  if (request.idempotency_key().empty() || request.idempotency_key().size() > kMostKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("idempotency_key has ", request.idempotency_key().size(),
                                                   " bytes; it must have 1 to ", kMostKeyBytes));
  }
  if (request.greatest_token_on_disk() > kMostTokenOnDisk) {
    return absl::InvalidArgumentError(absl::StrCat("greatest_token_on_disk is ", request.greatest_token_on_disk(),
                                                   "; it must be at most ", kMostTokenOnDisk));
  }
  if (request.epoch() != present.epoch) {
    return absl::AbortedError(absl::StrCat("epoch ", request.epoch(),
                                           " asks to write a checkpoint, and the job's last epoch is ", present.epoch));
  }
  if (!present.is_running) return absl::AbortedError(absl::StrCat("epoch ", request.epoch(), " has ended"));
  if (request.incarnation() != present.writer) {
    return absl::PermissionDeniedError(absl::StrCat("worker ", Show(request.incarnation()),
                                                    " asks to write a checkpoint; only rank 0 may, which is worker ",
                                                    present.writer));
  }
  const auto existing = catalogue_.find(NameAndStep(name, request.step()));
  if (existing != catalogue_.end() && !request.replace()) {
    return absl::AlreadyExistsError(
        absl::StrCat(Describe(name, request.step()), " exists: ", Show(existing->second.path())));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::CommitCheckpointResponse> CheckpointGate::Commit(const v1::CommitCheckpointRequest& request,
                                                                    const Present& present, absl::Time now,
                                                                    Writes* writes) {
  const v1::Checkpoint& asked = request.checkpoint();
  const std::string name = NameOrDefault(asked.name());
  if (absl::Status status = CheckNameAndStep(name, asked.step()); !status.ok()) return status;
  if (request.give_up()) return GiveUp(request, name, writes);
  if (absl::Status status = CheckFile(asked); !status.ok()) return status;
  v1::CommitCheckpointResponse response;
  const NameAndStep id(name, asked.step());
  const auto existing = catalogue_.find(id);
  if (existing != catalogue_.end() && existing->second.token() == asked.token()) {
    if (existing->second.path() != asked.path() || existing->second.sha256() != asked.sha256()) {
      return absl::InvalidArgumentError(absl::StrCat("token ", asked.token(), " has committed ",
                                                     Show(existing->second.path()), " already, and now names ",
                                                     Show(asked.path()), " or another checksum"));
    }
    *response.mutable_checkpoint() = existing->second;
    return response;
  }
  if (absl::Status status = CheckCommit(request, name, present); !status.ok()) return status;
  const v1::GrantRecord grant = std::move(grants_.at(name));
  grants_.erase(name);
  if (existing != catalogue_.end()) response.set_replaced_path(existing->second.path());
  v1::Checkpoint checkpoint = asked;
  checkpoint.set_name(name);
  checkpoint.set_epoch(grant.epoch());
  checkpoint.set_rank(0);
  // "Newest" goes by this time, so a clock that was set back must not reorder commits.
  last_commit_unix_ms_ = std::max(last_commit_unix_ms_ + 1, absl::ToUnixMillis(now));
  checkpoint.set_committed_unix_ms(last_commit_unix_ms_);
  writes->deletes.push_back(GrantKey(grant.token()));
  writes->puts.emplace_back(CheckpointKey(name, checkpoint.step()), checkpoint.SerializeAsString());
  *response.mutable_checkpoint() = checkpoint;
  Enter(id, std::move(checkpoint));
  // More than one where a path is longer than those that were first; an earlier version has kept any number of bytes.
  for (size_t left = kMostForgotten; left > 0 && (catalogue_.size() > kMostCheckpoints || bytes_ > kMostBytes); --left)
    ForgetOldest(writes);
  return response;
}

void CheckpointGate::ForgetOldest(Writes* writes) {
  auto oldest = by_commit_.begin();
  size_t left = kMostSpared;
  for (; left > 0 && oldest != by_commit_.end() && IsOnlyOne(oldest->second); --left) ++oldest;
  if (left == 0 || oldest == by_commit_.end()) oldest = by_commit_.begin();
  Forget(NameAndStep(oldest->second), writes);
}

bool CheckpointGate::IsOnlyOne(const NameAndStep& id) const {
  const auto own = catalogue_.find(id);
  const bool has_earlier = own != catalogue_.begin() && std::prev(own)->first.first == id.first;
  const auto next = std::next(own);
  return !has_earlier && (next == catalogue_.end() || next->first.first != id.first);
}

absl::StatusOr<v1::CommitCheckpointResponse> CheckpointGate::GiveUp(const v1::CommitCheckpointRequest& request,
                                                                    const std::string& name, Writes* writes) {
  const uint64_t token = request.checkpoint().token();
  if (absl::Status status = CheckWasGranted(token); !status.ok()) return status;
  v1::CommitCheckpointResponse response;
  const auto existing = catalogue_.find(NameAndStep(name, request.checkpoint().step()));
  if (existing != catalogue_.end() && existing->second.token() == token) {
    *response.mutable_checkpoint() = existing->second;
    return response;
  }
  const auto granted = grants_.find(name);
  if (granted == grants_.end() || granted->second.token() != token) return response;
  if (absl::Status status = CheckOwner(granted->second, request.incarnation(), "gives it up"); !status.ok())
    return status;
  grants_.erase(granted);
  writes->deletes.push_back(GrantKey(token));
  return response;
}

absl::Status CheckpointGate::CheckWasGranted(uint64_t token) const {
  if (token > 0 && token <= last_token_) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("token ", token, " was never granted; the last one is ", last_token_));
}

absl::Status CheckpointGate::CheckOwner(const v1::GrantRecord& grant, const std::string& incarnation,
                                        absl::string_view does) {
  if (grant.incarnation() == incarnation) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("token ", grant.token(), " was granted to worker ",
                                                  grant.incarnation(), ", and worker ", Show(incarnation), " ", does));
}

absl::Status CheckpointGate::CheckCommit(const v1::CommitCheckpointRequest& request, const std::string& name,
                                         const Present& present) const {
  const v1::Checkpoint& asked = request.checkpoint();
  if (absl::Status status = CheckWasGranted(asked.token()); !status.ok()) return status;
  const auto it = grants_.find(name);
  if (it == grants_.end()) {
    return absl::AbortedError(absl::StrCat("token ", asked.token(), " is not granted for ", Show(name),
                                           " any more; the job's last token is ", last_token_));
  }
  const v1::GrantRecord& grant = it->second;
  if (grant.token() != asked.token()) {
    return absl::AbortedError(absl::StrCat("token ", asked.token(), " is not the latest granted for ", Show(name),
                                           ": that is token ", grant.token()));
  }
  if (absl::Status status = CheckOwner(grant, request.incarnation(), "commits it"); !status.ok()) return status;
  if (grant.epoch() != present.epoch) {
    return absl::AbortedError(absl::StrCat("token ", asked.token(), " was granted in epoch ", grant.epoch(),
                                           ", and epoch ", present.epoch, " has been formed since"));
  }
  if (grant.step() != asked.step()) {
    return absl::InvalidArgumentError(absl::StrCat("token ", asked.token(), " was granted for step ", grant.step(),
                                                   ", and step ", asked.step(), " is committed with it"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::FindCheckpointResponse> CheckpointGate::Find(const v1::FindCheckpointRequest& request) const {
  if (request.step() < -1)
    return absl::InvalidArgumentError(absl::StrCat("step is ", request.step(), "; it must be at least -1"));
  v1::FindCheckpointResponse response;
  const auto first_of_name = catalogue_.lower_bound(NameAndStep(request.name(), 0));
  const bool has_name =
      request.name().empty() || (first_of_name != catalogue_.end() && first_of_name->first.first == request.name());
  for (auto it = has_name ? by_commit_.rbegin() : by_commit_.rend(); it != by_commit_.rend(); ++it) {
    const auto& [name, step] = it->second;
    if ((!request.name().empty() && name != request.name()) || (request.step() != -1 && step != request.step()))
      continue;
    *response.mutable_checkpoint() = catalogue_.at(it->second);
    return response;
  }
  return absl::NotFoundError(absl::StrCat("the job has no checkpoint", request.name().empty() ? "" : " ",
                                          Show(request.name()),
                                          request.step() == -1 ? "" : absl::StrCat(" at step ", request.step())));
}

bool CheckpointGate::IsWriting(uint64_t token, uint64_t epoch) const {
  return std::any_of(grants_.begin(), grants_.end(), [token, epoch](const auto& grant) {
    return grant.second.token() > token && grant.second.epoch() == epoch;
  });
}

v1::ListCheckpointsResponse CheckpointGate::ListNewest(size_t skipped, size_t most) const {
  v1::ListCheckpointsResponse response;
  response.set_found(by_commit_.size());
  if (skipped >= by_commit_.size()) return response;
  auto next = std::next(by_commit_.rbegin(), static_cast<std::ptrdiff_t>(skipped));
  for (; next != by_commit_.rend() && static_cast<size_t>(response.checkpoints_size()) < most; ++next)
    *response.add_checkpoints() = catalogue_.at(next->second);
  return response;
}

v1::ListCheckpointsResponse CheckpointGate::List(CommitPlace after, size_t most) const {
  v1::ListCheckpointsResponse response;
  response.set_found(by_commit_.size());
  for (auto next = by_commit_.upper_bound({after.committed_unix_ms, after.token});
       next != by_commit_.end() && static_cast<size_t>(response.checkpoints_size()) < most; ++next) {
    *response.add_checkpoints() = catalogue_.at(next->second);
  }
  return response;
}

absl::StatusOr<v1::DeleteCheckpointResponse> CheckpointGate::Delete(const std::string& name, int64_t step,
                                                                    Writes* writes) {
  if (absl::Status status = CheckNameAndStep(name, step); !status.ok()) return status;
  const NameAndStep id(NameOrDefault(name), step);
  const auto found = catalogue_.find(id);
  if (found == catalogue_.end())
    return absl::NotFoundError(absl::StrCat("the job has no checkpoint ", Describe(id.first, step)));
  v1::DeleteCheckpointResponse response;
  *response.mutable_checkpoint() = found->second;
  Forget(id, writes);
  return response;
}

void CheckpointGate::Forget(const NameAndStep& id, Writes* writes) {
  writes->deletes.push_back(CheckpointKey(id.first, id.second));
  Leave(id);
}

std::string CheckpointGate::GrantKey(uint64_t token) const {
  return absl::StrCat("grant/", prefix_, absl::StrFormat("%020d", token));
}

std::string CheckpointGate::CheckpointKey(const std::string& name, int64_t step) const {
  return absl::StrCat("checkpoint/", prefix_, name, "/", absl::StrFormat("%020d", step));
}

}  // namespace farandole
