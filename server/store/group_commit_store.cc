#include "server/store/group_commit_store.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "base/text/time_text.h"

namespace farandole {
namespace {

constexpr char kOwnerPrefix[] = "owner/";
// Of no owner: names are not empty.
constexpr char kReleasedKey[] = "owner/";
// The row that goes, and the one that tells its revision.
constexpr size_t kReleaseOperations = 2;

// Bounds the memory of one write; far above the size that keeps a disk busy.
constexpr size_t kMaxGroupBytes = 16 << 20;

// After so many bytes of commits it is the other tenants' turn.
constexpr size_t kMostTurnBytes = 1 << 20;

// After so many bytes of rows that were read, some milliseconds, commits are next. A reading counts as so much at
// least.
constexpr size_t kMostReadBytes = 1 << 20;
constexpr size_t kLeastReadBytes = 16 << 10;
constexpr size_t kRowsAtOnce = 8;

constexpr size_t kAllRows = std::numeric_limits<size_t>::max();

// A recovery opens the database again, which may take long: after one that failed, calls are refused without another
// try.
constexpr absl::Duration kRecoveryInterval = absl::Seconds(1);

// "" for the coordinator's own owners, so that no tenant's name is theirs.
std::string TenantOf(const std::string& owner) {
  const size_t end = owner.find('/');
  return end == std::string::npos ? "" : owner.substr(0, end);
}

bool TouchesOwners(const StoreBatch& batch) {
  const auto is_owner = [](const std::string& key) { return absl::StartsWith(key, kOwnerPrefix); };
  return std::any_of(batch.deletes.begin(), batch.deletes.end(), is_owner) ||
         std::any_of(batch.puts.begin(), batch.puts.end(), [&](const StoreRow& row) { return is_owner(row.key); });
}

absl::Status CheckBatch(const std::string& owner, const StoreBatch& batch) {
  const size_t operations = batch.deletes.size() + batch.puts.size() + (batch.releases_owner ? kReleaseOperations : 0);
  if (operations > kMaxBatchOperations) {
    return absl::InvalidArgumentError(absl::StrCat("store: a batch of ", owner, " has ", operations,
                                                   " operations, at most ", kMaxBatchOperations, " are allowed"));
  }
  if (const size_t bytes = BytesOf(batch); bytes > kMaxBatchBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("store: a batch of ", owner, " has ", bytes, " bytes, at most ", kMaxBatchBytes, " are allowed"));
  }
  if (TouchesOwners(batch)) {
    return absl::InvalidArgumentError(absl::StrCat("store: a batch of ", owner, " names a key under ", kOwnerPrefix));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<GroupCommitStore>> GroupCommitStore::Start(std::unique_ptr<StoreMedium> medium) {
  std::unique_ptr<GroupCommitStore> store(new GroupCommitStore(std::move(medium)));
  if (absl::Status status = store->LoadRevisions(); !status.ok()) return status;
  store->thread_ = std::thread([raw = store.get()] { raw->Run(); });
  return store;
}

GroupCommitStore::GroupCommitStore(std::unique_ptr<StoreMedium> medium) : medium_(std::move(medium)) {}

GroupCommitStore::~GroupCommitStore() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void GroupCommitStore::Acquire(std::string owner, std::function<void(absl::StatusOr<uint64_t>)> done) {
  AcquireRows(std::move(owner), {}, {}, [done = std::move(done)](const absl::StatusOr<AcquiredRows>& acquired) {
    if (acquired.ok()) {
      done(acquired->owner_revision);
    } else {
      done(acquired.status());
    }
  });
}

void GroupCommitStore::AcquireRows(std::string owner, std::vector<std::string> keys, std::vector<std::string> prefixes,
                                   std::function<void(absl::StatusOr<AcquiredRows>)> done) {
  Enqueue(AcquireCall{std::move(owner), std::move(keys), std::move(prefixes), std::move(done)});
}

void GroupCommitStore::Commit(std::string owner, uint64_t owner_revision, StoreBatch batch,
                              std::function<void(absl::Status)> done) {
  Enqueue(CommitCall{std::move(owner), owner_revision, std::move(batch), std::move(done)});
}

void GroupCommitStore::Scan(std::string prefix, std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) {
  ScanPage(std::move(prefix), "", kAllRows, std::move(done));
}

void GroupCommitStore::ScanPage(std::string prefix, std::string after, size_t most,
                                std::function<void(absl::StatusOr<std::vector<StoreRow>>)> done) {
  Enqueue(ScanCall{std::move(prefix), std::move(after), most, std::move(done)});
}

void GroupCommitStore::Enqueue(Call call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(call));
  has_work_.notify_one();
}

void GroupCommitStore::Measure(std::vector<std::string> prefixes, std::function<void(absl::StatusOr<uint64_t>)> done) {
  Enqueue(MeasureCall{std::move(prefixes), std::move(done)});
}

void GroupCommitStore::EndPatience() {
  const std::lock_guard<std::mutex> lock(mutex_);
  patience_ended_ = true;
  has_work_.notify_one();
}

std::string GroupCommitStore::Trouble() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return trouble_;
}

void GroupCommitStore::Run() {
  for (bool is_over = false; !is_over;) {
    bool came_none = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      const auto has_work = [this] { return HasWork(); };
      if (failure_.ok()) {
        has_work_.wait(lock, has_work);
      } else {
        has_work_.wait_for(lock, absl::ToChronoMilliseconds(kRecoveryInterval), has_work);
      }
      came_none = queue_.empty() && waiting_.empty();
      is_over = stopping_ && came_none && reads_.empty();
      is_patient_ = !patience_ended_ && !stopping_;
      std::move(queue_.begin(), queue_.end(), std::back_inserter(waiting_));
      queue_.clear();
    }
    // The last try is made at once.
    if (!is_patient_) next_recovery_ = absl::InfinitePast();
    TakeTurns();
    if (!failure_.ok() && (came_none || !held_.empty())) Recover().IgnoreError();
    if (!is_patient_) GiveUp();
    ReadSome();
    // The last try to recover may have made acquisitions durable.
    is_over = is_over && reads_.empty();
    ShowTrouble();
  }
}

void GroupCommitStore::TakeTurns() {
  std::deque<Call> calls;
  calls.swap(waiting_);
  Group group;
  std::map<std::string, size_t> taken;
  const auto has_turn = [&](const auto& call) {
    using T = std::decay_t<decltype(call)>;
    // All rows are to be those after the commits that were called before it.
    if constexpr (std::is_same_v<T, ScanCall>) return waiting_.empty();
    if constexpr (std::is_same_v<T, MeasureCall>) return true;
    if constexpr (std::is_same_v<T, AcquireCall>) return taken[TenantOf(call.owner)] < kMostTurnBytes;
    if constexpr (std::is_same_v<T, CommitCall>) {
      size_t& bytes = taken[TenantOf(call.owner)];
      if (bytes >= kMostTurnBytes) return false;
      bytes += BytesOf(call.batch);
      return true;
    }
  };
  for (Call& call : calls) {
    if (!std::visit(has_turn, call)) {
      waiting_.push_back(std::move(call));
      continue;
    }
    std::visit([&](auto& one) { Take(std::move(one), &group); }, call);
    if (group.bytes >= kMaxGroupBytes) Write(&group);
  }
  Write(&group);
}

void GroupCommitStore::ShowTrouble() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.ok()) {
    trouble_.clear();
  } else if (trouble_.empty()) {
    trouble_ = absl::StrCat("since ", UtcText(absl::Now()), " nothing can be made durable: ", failure_.message(),
                            "; jobs go on, and their next decisions wait for that");
  }
}

absl::Status GroupCommitStore::LoadRevisions() {
  absl::StatusOr<std::vector<StoreRow>> rows = medium_->Scan(kOwnerPrefix, "", kAllRows);
  if (!rows.ok()) return rows.status();
  for (const StoreRow& row : *rows) {
    uint64_t revision = 0;
    if (!absl::SimpleAtoi(row.value, &revision)) {
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a revision: \"", row.value, "\""));
    }
    if (row.key == kReleasedKey) {
      released_ = revision;
    } else {
      revisions_[row.key.substr(sizeof(kOwnerPrefix) - 1)] = revision;
    }
  }
  return absl::OkStatus();
}

void GroupCommitStore::Group::Add(StoreBatch batch, size_t batch_bytes, std::string owner,
                                  std::function<void(const absl::Status&)> complete) {
  bytes += batch_bytes;
  entries.push_back({static_cast<int>(batches.size()), std::move(owner), std::move(complete)});
  batches.push_back(std::move(batch));
}

void GroupCommitStore::Take(AcquireCall call, Group* group) {
  uint64_t& revision = revisions_[call.owner];
  revision = std::max(revision, released_) + 1;
  failed_owners_.erase(call.owner);
  StoreBatch batch;
  batch.puts.push_back({absl::StrCat(kOwnerPrefix, call.owner), absl::StrCat(revision)});
  const size_t bytes = BytesOf(batch);
  std::string tenant = TenantOf(call.owner);
  ReadCall read{std::move(call.keys), std::move(call.prefixes), std::move(call.done), {revision, {}}};
  group->Add(std::move(batch), bytes, std::move(call.owner),
             [this, tenant = std::move(tenant), read = std::move(read)](const absl::Status& status) mutable {
               if (!status.ok()) return read.done(status);
               if (read.keys.empty() && read.prefixes.empty()) return read.done(std::move(read.acquired));
               reads_[tenant].push_back(std::move(read));
             });
}

void GroupCommitStore::ReadSome() {
  for (size_t bytes = 0; !reads_.empty() && bytes < kMostReadBytes; bytes += kLeastReadBytes) {
    auto turn = reads_.upper_bound(last_turn_);
    if (turn == reads_.end()) turn = reads_.begin();
    last_turn_ = turn->first;
    if (!failure_.ok()) Recover().IgnoreError();
    ReadCall& next = turn->second.front();
    const size_t before = BytesOf(next.acquired.rows);
    const absl::StatusOr<bool> is_all = ReadPiece(&next);
    bytes += BytesOf(next.acquired.rows) - before;
    if (is_all.ok() && !*is_all) continue;
    ReadCall call = std::move(next);
    turn->second.pop_front();
    if (turn->second.empty()) reads_.erase(turn);
    if (is_all.ok()) {
      call.done(std::move(call.acquired));
    } else {
      call.done(is_all.status());
    }
  }
}

absl::StatusOr<bool> GroupCommitStore::ReadPiece(ReadCall* call) {
  std::vector<StoreRow>& rows = call->acquired.rows;
  for (const std::string& key : std::exchange(call->keys, {})) {
    absl::StatusOr<std::optional<std::string>> value = medium_->Get(key);
    if (!value.ok()) return value.status();
    if (value->has_value()) rows.push_back({key, *std::move(*value)});
  }
  for (size_t bytes = 0; call->prefixes_read < call->prefixes.size();) {
    if (bytes >= kMostReadBytes) return false;
    absl::StatusOr<std::vector<StoreRow>> some =
        medium_->Scan(call->prefixes[call->prefixes_read], call->last_key, kRowsAtOnce);
    if (!some.ok()) return some.status();
    bytes += BytesOf(*some);
    call->last_key = some->size() < kRowsAtOnce ? "" : some->back().key;
    if (call->last_key.empty()) ++call->prefixes_read;
    std::move(some->begin(), some->end(), std::back_inserter(rows));
  }
  return true;
}

void GroupCommitStore::Take(CommitCall call, Group* group) {
  if (absl::Status refusal = Admit(call); !refusal.ok()) {
    // Refused in its turn: earlier calls are completed first.
    group->entries.push_back(
        {-1, std::move(call.owner),
         [refusal = std::move(refusal), done = std::move(call.done)](const absl::Status&) { done(refusal); }});
    return;
  }
  if (call.batch.releases_owner) Release(call.owner, &call.batch);
  const size_t bytes = BytesOf(call.batch);
  group->Add(std::move(call.batch), bytes, std::move(call.owner), std::move(call.done));
}

void GroupCommitStore::Release(const std::string& owner, StoreBatch* batch) {
  const auto found = revisions_.find(owner);
  released_ = std::max(released_, found->second);
  revisions_.erase(found);
  batch->deletes.push_back(absl::StrCat(kOwnerPrefix, owner));
  batch->puts.push_back({kReleasedKey, absl::StrCat(released_)});
}

void GroupCommitStore::Take(ScanCall call, Group* group) {
  Write(group);
  if (!failure_.ok()) Recover().IgnoreError();
  call.done(medium_->Scan(call.prefix, call.after, call.most));
}

void GroupCommitStore::Take(MeasureCall call, Group* group) {
  // In its turn, so that it does not split the write.
  group->entries.push_back({-1, "", [this, call = std::move(call)](const absl::Status&) {
                              uint64_t bytes = 0;
                              for (const std::string& prefix : call.prefixes) {
                                const absl::StatusOr<uint64_t> measured = medium_->Measure(prefix);
                                if (!measured.ok()) return call.done(measured.status());
                                bytes += *measured;
                              }
                              call.done(bytes);
                            }});
}

absl::Status GroupCommitStore::Admit(const CommitCall& call) {
  const auto found = revisions_.find(call.owner);
  const uint64_t revision = found == revisions_.end() ? 0 : found->second;
  // A stale caller's errors are its own: they must not stop the one that holds the owner now.
  if (call.owner_revision != revision || revision == 0) {
    return absl::FailedPreconditionError(absl::StrCat("store: ", call.owner, " was taken over: its revision is ",
                                                      revision, ", the commit carries ", call.owner_revision));
  }
  if (const auto failed = failed_owners_.find(call.owner); failed != failed_owners_.end()) {
    return absl::UnavailableError(
        absl::StrCat("store: an earlier commit of ", call.owner, " failed: ", failed->second.message()));
  }
  absl::Status valid = CheckBatch(call.owner, call.batch);
  if (!valid.ok()) failed_owners_.emplace(call.owner, valid);
  return valid;
}

void GroupCommitStore::Write(Group* group) {
  Group gathered;
  std::swap(gathered, *group);
  const absl::Status status = gathered.batches.empty() ? failure_ : WriteOrRecover(gathered);
  Settle(std::move(gathered), status);
}

void GroupCommitStore::Settle(Group group, const absl::Status& status) {
  Group waiting;
  for (Entry& entry : group.entries) {
    const bool has_batch = entry.batch >= 0;
    const bool is_patient = has_batch && group.batches[entry.batch].is_patient;
    if (!status.ok() && is_patient_ && (is_patient || held_owners_.contains(entry.owner))) {
      held_owners_.insert(entry.owner);
      if (has_batch) {
        const size_t bytes = BytesOf(group.batches[entry.batch]);
        waiting.Add(std::move(group.batches[entry.batch]), bytes, std::move(entry.owner), std::move(entry.complete));
      } else {
        waiting.entries.push_back(std::move(entry));
      }
      continue;
    }
    if (has_batch && !status.ok()) failed_owners_.emplace(entry.owner, status);
    entry.complete(status);
  }
  if (!waiting.entries.empty()) held_.push_back(std::move(waiting));
}

void GroupCommitStore::GiveUp() {
  std::deque<Group> groups;
  groups.swap(held_);
  held_owners_.clear();
  for (Group& group : groups) Settle(std::move(group), failure_);
}

absl::Status GroupCommitStore::WriteOrRecover(const Group& group) {
  if (!failure_.ok() && !Recover().ok()) return failure_;
  failure_ = medium_->Write(group.batches);
  return failure_;
}

absl::Status GroupCommitStore::Recover() {
  if (SteadyNow() < next_recovery_) return failure_;
  absl::Status status = medium_->Recover();
  while (status.ok() && !held_.empty()) {
    if (!held_.front().batches.empty()) status = medium_->Write(held_.front().batches);
    if (!status.ok()) break;
    const Group written = std::move(held_.front());
    held_.pop_front();
    for (const Entry& entry : written.entries) entry.complete(status);
  }
  if (status.ok()) held_owners_.clear();
  if (!status.ok()) next_recovery_ = SteadyNow() + kRecoveryInterval;
  failure_ = status;
  return status;
}

}  // namespace farandole
