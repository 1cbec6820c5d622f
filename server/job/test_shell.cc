#include "server/job/test_shell.h"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "farandole/v1/store.pb.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/member_record.h"
#include "server/job/script.h"

namespace farandole {
namespace {

constexpr char kTenant[] = "acme";
constexpr char kJob[] = "mnist";

}  // namespace

TestShell::TestShell(JobOptions options)
    : options_(options), job_(std::make_unique<Job>(kTenant, kJob, options, RandomBytes())) {}

std::function<std::string(size_t)> TestShell::RandomBytes() {
  return [this](size_t count) { return std::string(count, static_cast<char>('a' + last_random_++ % 26)); };
}

Actions TestShell::Step(const Event& event) {
  Actions actions = job_->Step(event, now_, wall_ahead_);
  Apply(actions.persist);
  for (const Output& output : actions.outputs) Apply(output);
  // Waits for the workers.
  const auto* evidence = std::get_if<EvidenceRequested>(&event);
  if (evidence != nullptr && calls_.erase(evidence->call) > 0) late_calls_.insert(evidence->call);
  const auto* survey = std::get_if<CollectivesSurveyed>(&event);
  if (survey != nullptr && calls_.erase(survey->call) > 0) late_calls_.insert(survey->call);
  Expect(calls_.empty(), absl::StrCat(calls_.size(), " calls have no answer after their step"));
  calls_.clear();
  next_tick_ = actions.next_tick;
  while (job_->HasMeasured()) Apply(job_->TakeMeasured());
  if (job_->IsDeleted()) Purge();
  return actions;
}

void TestShell::Purge() {
  for (const char* kind : {"checkpoint", "grant", "logged", "measured", "purge"}) {
    const std::string prefix = absl::StrCat(kind, "/", kTenant, "/", kJob);
    while (rows_.lower_bound(prefix) != rows_.end() && absl::StartsWith(rows_.lower_bound(prefix)->first, prefix))
      rows_.erase(rows_.lower_bound(prefix));
  }
  Restore();
}

bool TestShell::Restore() {
  std::vector<StoreRow> rows;
  for (const auto& [key, value] : rows_) rows.push_back({key, value});
  auto restored = Job::Restore(kTenant, kJob, options_, RandomBytes(), rows, now_);
  Expect(restored.ok(), absl::StrCat("the job cannot be restored: ", restored.status().ToString()));
  if (restored.ok()) job_ = *std::move(restored);
  return restored.ok();
}

void TestShell::Advance(absl::Duration duration, const std::function<void(const Actions&)>& seen) {
  const absl::Time until = now_ + duration;
  for (int at_once = 0; next_tick_ <= until;) {
    at_once = next_tick_ <= now_ ? at_once + 1 : 0;
    Expect(at_once < 8, "the job asks for one tick after the other at the same time");
    if (at_once >= 8) break;
    now_ = std::max(now_, next_tick_);
    seen(Step(Ticked{}));
  }
  now_ = until;
}

void TestShell::Restart(const std::function<void(const Actions&)>& seen) {
  open_.clear();
  // A new process begins at the wall clock's time.
  now_ += std::exchange(wall_ahead_, absl::ZeroDuration());
  if (Restore()) seen(Step(Ticked{}));
}

std::vector<StreamId> TestShell::FormEpoch(int size, const std::vector<std::string>& tokens) {
  std::vector<StreamId> streams;
  for (int index = 0; index < size; ++index) {
    JoinRequested join{NewCall(), {}};
    join.request.set_job(kJob);
    join.request.mutable_member()->set_incarnation(IncarnationOf(absl::StrCat("w", index)));
    join.request.mutable_member()->set_host_id("a");
    join.request.mutable_member()->set_pid(1 + index);
    join.request.set_launch_index(static_cast<uint32_t>(index));
    join.request.set_wanted_size(static_cast<uint32_t>(size));
    join.request.set_protocol_version(kProtocolVersion);
    join.request.set_join_timeout_ms(5000);
    join.request.set_stall_warning_ms(60000);
    if (!tokens.empty()) {
      join.launch.set_token_id(tokens.front());
      join.token_id = tokens[static_cast<size_t>(index)];
    }
    Step(join);
    v1::Hello hello;
    hello.set_job(kJob);
    hello.set_incarnation(join.request.member().incarnation());
    streams.push_back(NewStream());
    Step(StreamOpened{streams.back(), hello, join.token_id});
  }
  return streams;
}

CallId TestShell::NewCall() {
  calls_.insert(++last_call_);
  return last_call_;
}

StreamId TestShell::NewStream() {
  open_.insert(++last_stream_);
  return last_stream_;
}

Actions TestShell::Close(StreamId stream, const std::string& evidence) {
  open_.erase(stream);
  return Step(StreamClosed{stream, evidence});
}

void TestShell::Apply(const StoreBatch& batch) {
  size_t bytes = 0;
  for (const std::string& key : batch.deletes) {
    bytes += key.size();
    Expect(rows_.erase(key) == 1, absl::StrCat("row ", key, " is deleted and was not there"));
  }
  for (const StoreRow& row : batch.puts) {
    bytes += row.key.size() + row.value.size();
    rows_[row.key] = row.value;
  }
  Expect(batch.deletes.size() + batch.puts.size() <= kMaxBatchOperations, "a batch has too many operations");
  Expect(bytes <= kMaxBatchBytes, absl::StrCat("a batch has ", bytes, " bytes"));
}

void TestShell::Apply(const Output& output) {
  if (const auto* send = std::get_if<Send>(&output); send != nullptr) {
    // The text of an epoch's members is long.
    if (!IsOpen(send->stream))
      Expect(false,
             absl::StrCat("stream ", send->stream, " is not open and is sent ", send->message->ShortDebugString()));
    // Of one message to many streams the first is looked at.
    if (send->message == std::exchange(last_sent_, send->message)) return;
    Expect(!send->message->SerializeAsString().empty(), "an empty message is sent");
    if (send->message->has_epoch_formed()) CheckEpoch(send->message->epoch_formed());
    if (send->message->has_slot_assigned()) CheckSlot(send->message->slot_assigned());
  } else if (const auto* close = std::get_if<CloseStream>(&output); close != nullptr) {
    Expect(open_.erase(close->stream) == 1, absl::StrCat("stream ", close->stream, " is closed and was not open"));
  } else if (const auto* reply = std::get_if<Reply>(&output); reply != nullptr) {
    Expect(calls_.erase(reply->call) + late_calls_.erase(reply->call) == 1,
           absl::StrCat("call ", reply->call, " is answered twice or was not made"));
    Expect(reply->status.ok() != std::holds_alternative<std::monostate>(reply->message),
           "a reply has neither or both of error and message");
    if (const auto* begun = std::get_if<v1::BeginCheckpointResponse>(&reply->message); begun != nullptr) {
      Expect(begun->token() > last_token_ || tokens_.count(begun->token()) > 0,
             absl::StrCat("token ", begun->token(), " goes back"));
      last_token_ = std::max(last_token_, begun->token());
      tokens_.insert(begun->token());
    }
  }
}

void TestShell::CheckEpoch(const v1::Epoch& epoch) {
  const std::string bytes = epoch.SerializeAsString();
  Expect(epoch.number() == last_epoch_ ? bytes == last_epoch_bytes_ : epoch.number() == last_epoch_ + 1,
         absl::StrCat("epoch ", epoch.number(), " follows epoch ", last_epoch_, " or differs between members"));
  last_epoch_ = epoch.number();
  last_epoch_bytes_ = bytes;
  std::set<std::string> incarnations, finished_hosts;
  std::string host;
  for (const v1::Member& member : epoch.members()) {
    Expect(incarnations.insert(member.incarnation()).second, "an epoch has one worker twice");
    if (member.host_id() == host) continue;
    finished_hosts.insert(host);
    host = member.host_id();
    Expect(finished_hosts.count(host) == 0, "workers of one host are not neighbours");
  }
  v1::JobRecord record;
  record.ParseFromString(rows_[absl::StrCat("job/", kTenant, "/", kJob)]);
  absl::StatusOr<v1::Epoch> members = UnpackMembers(rows_[absl::StrCat("members/", kTenant, "/", kJob)]);
  if (members.ok()) *record.mutable_epoch()->mutable_members() = members->members();
  Expect(record.epoch().SerializeAsString() == bytes, "an epoch is sent that is not durable");
}

void TestShell::CheckSlot(const v1::SlotAssigned& slot) {
  const std::pair<uint32_t, std::string> name(slot.group(), slot.name());
  const auto [it, is_new] = slots_.try_emplace({slot.epoch(), slot.slot()}, name);
  Expect(is_new || it->second == name,
         absl::StrCat("slot ", slot.slot(), " is given to ", slot.name(), " and to ", it->second.second));
  v1::JobRecord record;
  record.ParseFromString(rows_[absl::StrCat("job/", kTenant, "/", kJob)]);
  Expect(slot.slot() >= 1 && slot.slot() <= record.slots_reserved(),
         absl::StrCat("slot ", slot.slot(), " is not reserved"));
}

void TestShell::Expect(bool claim, const std::string& otherwise) {
  if (!claim) broken_.push_back(otherwise);
}

}  // namespace farandole
