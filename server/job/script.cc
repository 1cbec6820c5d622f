#include "server/job/script.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/op_text.h"
#include "server/bytes/byte_ledger.h"
#include "server/job/rules/bounds.h"
#include "server/job/rules/wording.h"

namespace farandole {
namespace {

int64_t NumberOf(absl::string_view text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number : 0;
}

std::vector<std::string> SplitList(const std::string& text, char by) {
  return text.empty() ? std::vector<std::string>() : std::vector<std::string>(absl::StrSplit(text, by));
}

// The number of a name among those that `show` gives to 0, 1, ...; 99, which no enum has, if there is none.
template <typename Enum, typename Show>
Enum EnumOf(const std::string& name, const Show& show) {
  for (int i = 0; i < 99; ++i) {
    if (show(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return static_cast<Enum>(99);
}

// The stories count in round numbers.
JobOptions RoundOptions() {
  JobOptions options;
  options.silence_limit = absl::Seconds(3);
  return options;
}

uint32_t WorkerNumber(const std::string& worker) {
  return worker.empty() ? 0 : static_cast<uint32_t>(NumberOf(worker.substr(1)));
}

}  // namespace

std::string IncarnationOf(const std::string& worker) { return absl::StrFormat("%032x", WorkerNumber(worker)); }

Script::Script() : shell_(std::make_unique<TestShell>(RoundOptions())) {}

const std::map<std::string, Script::Command>& Script::Commands() {
  static const auto* const commands = new std::map<std::string, Command>{
      {"options", &Script::Options}, {"join", &Script::Join},       {"hello", &Script::Hello},
      {"ready", &Script::Ready},     {"group", &Script::Group},     {"retire", &Script::Retire},
      {"beat", &Script::Beat},       {"lost", &Script::Lost},       {"stall", &Script::Stall},
      {"leave", &Script::Leave},     {"close", &Script::Close},     {"advance", &Script::Advance},
      {"restart", &Script::Restart}, {"begin", &Script::Begin},     {"oversleep", &Script::Oversleep},
      {"commit", &Script::Commit},   {"find", &Script::Find},       {"list", &Script::List},
      {"inspect", &Script::Inspect}, {"summary", &Script::Summary}, {"abort", &Script::Abort},
      {"rows", &Script::Rows},       {"tick", &Script::Tick},       {"start", &Script::Start},
      {"ended", &Script::Ended},     {"depart", &Script::Depart},   {"exit", &Script::Exit},
      {"drain", &Script::Drain},     {"gpu", &Script::Gpu},         {"clock", &Script::StepWallClock},
      {"claim", &Script::Claim},     {"delete", &Script::Delete},
  };
  return *commands;
}

std::string Script::Play(const std::string& command) {
  output_.clear();
  const size_t broken = shell_->broken().size();
  const std::vector<std::string> parts = absl::StrSplit(command, absl::MaxSplits(' ', 1));
  const auto it = Commands().find(parts[0]);
  if (it == Commands().end()) return absl::StrCat("error: there is no command ", parts[0], "\n");
  (this->*it->second)(Parse(parts.size() < 2 ? "" : parts[1]));
  for (size_t i = broken; i < shell_->broken().size(); ++i) Line(absl::StrCat("error: ", shell_->broken()[i]));
  return output_;
}

Script::Arguments Script::Parse(const std::string& text) {
  std::vector<std::string> words;
  bool is_quoted = false, in_word = false;
  for (const char c : text) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ' ' && !is_quoted) {
      in_word = false;
    } else {
      if (!in_word) words.emplace_back();
      in_word = true;
      words.back() += c;
    }
  }
  Arguments arguments;
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      arguments.values[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (arguments.subject.empty()) {
      arguments.subject = word;
    } else {
      arguments.words.push_back(word);
    }
  }
  return arguments;
}

std::string Script::Arguments::Text(const std::string& key, const std::string& otherwise) const {
  return Has(key) ? values.at(key) : otherwise;
}

int64_t Script::Arguments::Number(const std::string& key, int64_t otherwise) const {
  return Has(key) ? NumberOf(values.at(key)) : otherwise;
}

absl::Duration Script::Arguments::Duration(const std::string& key, absl::Duration otherwise) const {
  absl::Duration duration = otherwise;
  if (Has(key)) absl::ParseDuration(values.at(key), &duration);
  return duration;
}

void Script::Options(const Arguments& arguments) {
  JobOptions options = RoundOptions();
  options.heartbeat_interval = arguments.Duration("heartbeat", options.heartbeat_interval);
  options.silence_limit = arguments.Duration("silence", options.silence_limit);
  options.reattach_window = arguments.Duration("window", options.reattach_window);
  options.max_workers = arguments.Number("max_workers", options.max_workers);
  options.max_slots = arguments.Number("max_slots", options.max_slots);
  options.max_groups = arguments.Number("max_groups", options.max_groups);
  options.traces_runs = arguments.Has("traces");
  if (arguments.Has("tenant_kept")) {
    ByteLimits limits;
    limits.tenant_kept = arguments.Number("tenant_kept", 0);
    options.bytes = ByteLedger(limits).Job("default", "train");
  }
  shell_ = std::make_unique<TestShell>(options);
}

void Script::Start(const Arguments& arguments) {
  const int64_t first = arguments.Number("first", 0), count = NumberOf(arguments.subject);
  const std::vector<std::string> hosts = SplitList(arguments.Text("hosts", "a"), ',');
  for (int64_t i = first; i < first + count; ++i) {
    Arguments worker = arguments;
    worker.subject = absl::StrCat("w", i);
    worker.values["size"] = absl::StrCat(count);
    worker.values["host"] = hosts[(i - first) % hosts.size()];
    Join(worker);
    Hello(worker);
  }
  std::string formed;
  for (const absl::string_view line : absl::StrSplit(output_, '\n')) {
    if (absl::StrContains(line, "epoch_formed") || absl::StartsWith(line, "error:"))
      absl::StrAppend(&formed, line, "\n");
  }
  output_ = formed;
}

void Script::Hello(const Arguments& arguments) {
  v1::Hello hello;
  hello.set_job("mnist");
  hello.set_incarnation(arguments.Text("incarnation", IncarnationOf(arguments.subject)));
  hello.set_epoch(arguments.Number("epoch", 0));
  for (const std::string& slot : SplitList(arguments.Text("slots"), ';')) {
    const std::vector<std::string> parts = absl::StrSplit(slot, ':');
    v1::SlotAssigned* assigned = hello.add_slots();
    assigned->set_epoch(hello.epoch());
    assigned->set_slot(NumberOf(parts[0]));
    assigned->set_name(parts[1]);
    assigned->set_group(parts.size() > 2 ? NumberOf(parts[2]) : 0);
  }
  for (const std::string& group : SplitList(arguments.Text("groups"), ';')) {
    const std::vector<std::string> parts = absl::StrSplit(group, ':');
    v1::Group* known = hello.add_groups();
    known->set_number(NumberOf(parts[0]));
    for (const std::string& rank : SplitList(parts[1], ',')) known->add_ranks(NumberOf(rank));
  }
  for (const std::string& told : SplitList(arguments.Text("told"), ';')) {
    const std::vector<std::string> parts = absl::StrSplit(told, ':');
    v1::Mismatch* mismatch = hello.add_told();
    mismatch->set_name(parts[0]);
    mismatch->set_next_ordinal(NumberOf(parts[1]));
    mismatch->set_disputed_slot(NumberOf(parts[2]));
    mismatch->set_attempt(NumberOf(parts[3]));
    mismatch->set_sentence(parts[4]);
  }
  for (const std::string& refused : SplitList(arguments.Text("refused"), ';')) {
    hello.add_refused()->set_ordinal(NumberOf(refused.substr(0, refused.find(':'))));
    hello.mutable_refused()->rbegin()->set_error(refused.substr(refused.find(':') + 1));
  }
  const StreamId stream = stream_of_[arguments.subject] = shell_->NewStream();
  owner_of_[stream] = arguments.subject;
  Step(StreamOpened{stream, hello, token_of_[arguments.subject]});
}

void Script::Ready(const Arguments& arguments) {
  v1::WorkerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_name(arguments.Has("name_bytes") ? std::string(arguments.Number("name_bytes", 0), 'x')
                                              : arguments.Text("name", "grad/0"));
  ready->set_group(arguments.Number("group", 0));
  ready->set_op(EnumOf<v1::OpType>(arguments.Text("op", "allreduce"), ShowOp));
  ready->set_dtype(EnumOf<v1::DType>(arguments.Text("dtype", "float32"), ShowDType));
  ready->set_reduce_op(EnumOf<v1::ReduceOp>(arguments.Text("reduce", "average"), ShowReduceOp));
  for (const std::string& dim : SplitList(arguments.Text("shape"), ',')) ready->add_shape(NumberOf(dim));
  for (const std::string& shape : SplitList(arguments.Text("grouped"), ';')) {
    v1::Shape* grouped = ready->add_grouped_shapes();
    for (const std::string& dim : SplitList(shape, ',')) grouped->add_dims(NumberOf(dim));
  }
  ready->set_root(arguments.Number("root", 0));
  double scale = 1;
  ready->set_prescale(absl::SimpleAtod(arguments.Text("prescale"), &scale) ? scale : 1);
  ready->set_postscale(absl::SimpleAtod(arguments.Text("postscale"), &scale) ? scale : 1);
  ready->set_device(EnumOf<v1::DeviceKind>(arguments.Text("device", "cpu"), ShowDevice));
  ready->set_retired_slot(arguments.Number("retired", 0));
  ready->set_disputed_slot(arguments.Number("disputed", 0));
  ready->set_attempt(arguments.Number("attempt", 0));
  ready->set_ordinal(arguments.Number("ordinal", 0));
  ready->set_joins(arguments.Number("joins", 0));
  ready->set_disputants(arguments.Number("disputants", 0));
  Say(arguments.subject, std::move(message));
}

void Script::Group(const Arguments& arguments) {
  v1::WorkerMessage message;
  message.mutable_group_request()->set_epoch(EpochOf(arguments));
  for (const std::string& rank : SplitList(arguments.Text("ranks"), ','))
    message.mutable_group_request()->add_ranks(NumberOf(rank));
  message.mutable_group_request()->set_remove_group(arguments.Number("remove", 0));
  message.mutable_group_request()->set_ordinal(arguments.Number("ordinal", 0));
  Say(arguments.subject, std::move(message));
}

void Script::Retire(const Arguments& arguments) {
  v1::WorkerMessage message;
  message.mutable_slot_retired()->set_epoch(EpochOf(arguments));
  message.mutable_slot_retired()->set_slot(arguments.Number("slot", 0));
  Say(arguments.subject, std::move(message));
}

void Script::Beat(const Arguments& arguments) {
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_epoch(EpochOf(arguments));
  for (const std::string& word : arguments.words) {
    const std::vector<std::string> parts = absl::StrSplit(word, ':');
    v1::Pulse* pulse = message.mutable_heartbeat()->add_pulses();
    pulse->set_rank(NumberOf(parts[0]));
    pulse->set_beat(parts.size() > 1 ? NumberOf(parts[1]) : 0);
    pulse->set_batches(parts.size() > 2 ? NumberOf(parts[2]) : 0);
    pulse->set_age_ms(parts.size() > 3 ? NumberOf(parts[3]) : 0);
    beats_ = std::max(beats_, pulse->beat());
  }
  Say(arguments.subject, std::move(message));
}

void Script::Lost(const Arguments& arguments) {
  v1::WorkerMessage message;
  v1::PeerLost* lost = message.mutable_peer_lost();
  lost->set_epoch(EpochOf(arguments));
  lost->set_rank(arguments.Number("rank", 0));
  lost->set_evidence(arguments.Text("evidence"));
  lost->set_ended_by(arguments.Text("ended"));
  Say(arguments.subject, std::move(message));
}

void Script::Stall(const Arguments& arguments) {
  v1::WorkerMessage message;
  v1::StallReport* report = message.mutable_stall_report();
  report->set_epoch(EpochOf(arguments));
  for (const std::string& tensor : SplitList(arguments.Text("pending"), ';')) {
    const std::vector<std::string> parts = absl::StrSplit(tensor, ':');
    v1::PendingTensor* pending = report->add_pending();
    pending->set_name(parts[0]);
    absl::Duration age;
    if (parts.size() > 1) absl::ParseDuration(parts[1], &age);
    pending->set_age_ms(absl::ToInt64Milliseconds(age));
    pending->set_op(parts.size() > 2 ? EnumOf<v1::OpType>(parts[2], ShowOp) : v1::OP_TYPE_ALLREDUCE);
    pending->set_group(parts.size() > 3 ? NumberOf(parts[3]) : 0);
  }
  report->set_last_submitted(arguments.Text("last"));
  report->set_last_submitted_age_ms(absl::ToInt64Milliseconds(arguments.Duration("age", absl::ZeroDuration())));
  report->set_inquiry(arguments.Number("inquiry", 0));
  report->set_running(arguments.Number("running", 0));
  report->set_group_requests(arguments.Number("groups", 0));
  report->set_unasked(arguments.Number("unasked", 0));
  Say(arguments.subject, std::move(message));
}

void Script::Gpu(const Arguments& arguments) {
  v1::WorkerMessage message;
  message.mutable_gpu_status()->set_epoch(EpochOf(arguments));
  if (!arguments.Has("name")) return Say(arguments.subject, std::move(message));
  v1::Gpu* gpu = message.mutable_gpu_status()->mutable_gpu();
  gpu->set_name(arguments.Text("name"));
  if (arguments.Has("busy")) gpu->set_busy_percent(arguments.Number("busy", 0));
  gpu->set_memory_used_bytes(arguments.Number("used", 0));
  gpu->set_memory_total_bytes(arguments.Number("total", 0));
  Say(arguments.subject, std::move(message));
}

void Script::Leave(const Arguments& arguments) {
  v1::WorkerMessage message;
  message.mutable_leave()->set_epoch(EpochOf(arguments));
  message.mutable_leave()->set_reason(arguments.Text("reason"));
  message.mutable_leave()->set_failure(arguments.Text("failure"));
  message.mutable_leave()->set_returns(arguments.Has("returns"));
  for (const std::string& rank : SplitList(arguments.Text("left"), ','))
    message.mutable_leave()->add_left_ranks(NumberOf(rank));
  Say(arguments.subject, std::move(message));
}

void Script::Depart(const Arguments& arguments) {
  v1::WorkerMessage message;
  message.mutable_departing()->set_epoch(EpochOf(arguments));
  message.mutable_departing()->set_grace_ms(absl::ToInt64Milliseconds(arguments.Duration("grace", absl::Seconds(30))));
  message.mutable_departing()->set_reason(arguments.Text("reason"));
  Say(arguments.subject, std::move(message));
}

void Script::Ended(const Arguments& arguments) {
  v1::WorkerMessage message;
  message.mutable_process_ended()->set_launch_index(static_cast<uint32_t>(arguments.Number("index", 0)));
  message.mutable_process_ended()->set_sentence(arguments.Text("sentence"));
  Say(arguments.subject, std::move(message));
}

void Script::Drain(const Arguments& arguments) {
  DrainRequested event;
  event.call = shell_->NewCall();
  if (arguments.Has("rank")) event.rank = arguments.Number("rank", 0);
  event.hostname = arguments.Text("host");
  for (const std::string& index : SplitList(arguments.Text("launched"), ',')) event.launched.insert(NumberOf(index));
  event.reason = arguments.Text("reason");
  Step(event);
}

void Script::Close(const Arguments& arguments) {
  const auto it = stream_of_.find(arguments.subject);
  if (it == stream_of_.end() || !shell_->IsOpen(it->second))
    return Line(absl::StrCat("error: ", arguments.subject, " has no stream"));
  Show(shell_->Close(it->second, arguments.Text("evidence", "connection reset")));
  owner_of_.erase(it->second);
}

void Script::Advance(const Arguments& arguments) {
  absl::Duration left;
  if (!absl::ParseDuration(arguments.subject, &left))
    return Line(absl::StrCat("error: ", arguments.subject, " is no duration"));
  const auto show = [this](const Actions& actions) { Show(actions); };
  while (arguments.Has("beating") && left >= absl::Milliseconds(500)) {
    shell_->Advance(absl::Milliseconds(500), show);
    left -= absl::Milliseconds(500);
    BeatAll(arguments);
  }
  shell_->Advance(left, show);
}

void Script::BeatAll(const Arguments& arguments) {
  ++beats_;
  for (const std::string& worker : SplitList(arguments.Text("beating"), ',')) {
    if (!shell_->IsOpen(stream_of_[worker])) continue;
    v1::WorkerMessage message;
    message.mutable_heartbeat()->set_epoch(place_of_[worker].first);
    v1::Pulse* pulse = message.mutable_heartbeat()->add_pulses();
    pulse->set_rank(place_of_[worker].second);
    pulse->set_beat(beats_);
    pulse->set_batches(10 * beats_);
    Say(worker, std::move(message));
  }
}

void Script::Oversleep(const Arguments& arguments) {
  absl::Duration duration;
  absl::ParseDuration(arguments.subject, &duration);
  shell_->Oversleep(duration);
}

void Script::StepWallClock(const Arguments& arguments) {
  absl::Duration step;
  absl::ParseDuration(arguments.subject, &step);
  shell_->StepWallClock(step);
}

void Script::Restart(const Arguments&) {
  owner_of_.clear();
  stream_of_.clear();
  shell_->Restart([this](const Actions& actions) { Show(actions); });
}

void Script::Begin(const Arguments& arguments) {
  if (arguments.subject == "now")
    return Step(CheckpointAsked{shell_->NewCall(), arguments.Text("by", "token 1 (operator of tenant acme)")});
  if (arguments.Has("told")) {
    v1::WorkerMessage message;
    message.mutable_checkpoint_told()->set_epoch(EpochOf(arguments));
    message.mutable_checkpoint_told()->set_serial(arguments.Number("told", 0));
    message.mutable_checkpoint_told()->set_failure(arguments.Text("failure"));
    return Say(arguments.subject, std::move(message));
  }
  BeginCheckpointRequested event{shell_->NewCall(), {}};
  event.request.set_job("mnist");
  event.request.set_incarnation(IncarnationOf(arguments.subject));
  event.request.set_epoch(EpochOf(arguments));
  event.request.set_name(arguments.Text("name"));
  event.request.set_step(arguments.Number("step", 0));
  event.request.set_replace(arguments.Number("replace", 0) != 0);
  event.request.set_idempotency_key(arguments.Text("key"));
  Step(event);
}

void Script::Commit(const Arguments& arguments) {
  CommitCheckpointRequested event{shell_->NewCall(), {}};
  event.request.set_job("mnist");
  event.request.set_incarnation(IncarnationOf(arguments.subject));
  event.request.set_give_up(arguments.Text("give_up") == "yes");
  v1::Checkpoint* checkpoint = event.request.mutable_checkpoint();
  checkpoint->set_name(arguments.Text("name"));
  checkpoint->set_step(arguments.Number("step", 0));
  checkpoint->set_token(arguments.Number("token", 0));
  checkpoint->set_path(arguments.Text("path"));
  checkpoint->set_size_bytes(arguments.Number("size", 1000));
  checkpoint->set_sha256(std::string(32, 's'));
  Step(event);
}

void Script::Find(const Arguments& arguments) {
  FindCheckpointRequested event{shell_->NewCall(), {}};
  event.request.set_job("mnist");
  event.request.set_name(arguments.Text("name"));
  event.request.set_step(arguments.Number("step", -1));
  Step(event);
}

void Script::List(const Arguments& arguments) {
  if (arguments.subject == "lost") return Step(LostListed{shell_->NewCall()});
  CheckpointsListed event{shell_->NewCall()};
  if (arguments.Has("after")) event.after_unix_ms = 1'700'000'000'000 + arguments.Number("after", 0);
  event.after_token = static_cast<uint64_t>(arguments.Number("token", 0));
  if (arguments.Has("most")) event.most = static_cast<size_t>(arguments.Number("most", 0));
  Step(event);
}
void Script::Inspect(const Arguments&) { Step(JobInspected{shell_->NewCall()}); }
void Script::Abort(const Arguments& arguments) {
  Step(AbortRequested{shell_->NewCall(), arguments.Text("reason"), arguments.Text("by", "operator") == "launcher"});
}

void Script::Delete(const Arguments& arguments) {
  if (arguments.subject == "checkpoint") {
    return Step(DeleteCheckpointRequested{shell_->NewCall(), arguments.Text("name"), arguments.Number("step", 0)});
  }
  Step(DeleteRequested{shell_->NewCall(), arguments.Number("ended", 0)});
}

void Script::Say(const std::string& worker, v1::WorkerMessage message) {
  const auto it = stream_of_.find(worker);
  if (it == stream_of_.end()) return Line(absl::StrCat("error: ", worker, " has no stream"));
  Step(MessageReceived{it->second, std::move(message)});
}

uint64_t Script::EpochOf(const Arguments& arguments) const {
  const auto it = place_of_.find(arguments.subject);
  return arguments.Number("epoch", it == place_of_.end() ? 0 : it->second.first);
}

void Script::Line(const std::string& line) { absl::StrAppend(&output_, line, "\n"); }

}  // namespace farandole
