// Makes one call of the control plane's client, and prints what it gives as JSON: the C++ row of test_clients.py.
//
//   client_tool [--patience MS] [--token TEXT] [--server-name NAME] [--cert FILE] [--key FILE] COMMAND WORD...
//
// The coordinator is that of FARANDOLE_COORDINATOR, FARANDOLE_TOKEN_FILE and FARANDOLE_CA_FILE. An error is an object
// with its number and its sentence, and exit code 1.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "farandole/client.h"

namespace {

using namespace farandole;
using client::Client;

volatile sig_atomic_t stopped = 0;

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character == '\n' ? ' ' : character;
  }
  return quoted + "\"";
}

// The members of an object.
class Object {
 public:
  Object& With(const char* name, const std::string& text) { return Raw(name, Quoted(text)); }
  Object& With(const char* name, const char* text) { return Raw(name, Quoted(text)); }
  template <typename Number>
  Object& With(const char* name, Number number) {
    return Raw(name, std::to_string(number));
  }
  Object& Raw(const char* name, const std::string& value) {
    text_ += (text_.empty() ? "{" : ",") + Quoted(name) + ":" + value;
    return *this;
  }
  std::string text() const { return text_ + "}"; }

 private:
  std::string text_;
};

int64_t Milliseconds(client::Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::string Json(const client::Summary& job);
std::string Json(const client::Worker& worker);
std::string Json(const client::Event& event);
std::string Json(const client::Checkpoint& checkpoint);
std::string Json(const client::Token& token);
std::string Json(const client::TenantRecord& tenant);
std::string Json(const client::RankFindings& rank);
std::string Json(int rank) { return std::to_string(rank); }
std::string Json(const std::string& text) { return Quoted(text); }
template <typename Each>
std::string Json(const std::vector<Each>& all) {
  std::string text;
  for (const Each& each : all) text += (text.empty() ? "" : ",") + Json(each);
  return "[" + text + "]";
}

std::string Json(const client::Summary& job) {
  Object object;
  object.With("tenant", job.tenant).With("name", job.name).With("state", NameOf(job.state)).With("reason", job.reason);
  object.With("epoch", job.epoch).With("size", job.size).With("wanted_size", job.wanted_size);
  object.With("created_ms", Milliseconds(job.created)).With("last_stall", job.last_stall);
  object.Raw("has_stall_time", job.last_stall_at.has_value() ? "true" : "false").With("blocker", job.Blocker());
  object.Raw("has_ended", job.HasEnded() ? "true" : "false");
  if (const auto& queue = job.queue; queue.has_value()) {
    object.Raw("queue", "[" + std::to_string(queue->position) + "," + std::to_string(queue->length) + "," +
                            Quoted(queue->reason) + "]");
  }
  if (!job.elastic.has_value()) return object.Raw("elastic", "null").text();
  const std::vector<uint32_t> bounds = {job.elastic->min_size, job.elastic->max_size, job.elastic->resets};
  std::string text;
  for (const uint32_t bound : bounds) text += (text.empty() ? "" : ",") + std::to_string(bound);
  return object.Raw("elastic", "[" + text + "]").text();
}
std::string Json(const client::Token& token) {
  static const char* const kNames[] = {"unknown", "viewer",  "launcher",         "operator",
                                       "admin",   "auditor", "cluster-operator", "root"};
  const std::string ended = token.ended.empty() ? "false" : "true";
  return "[" + Quoted(token.id) + "," + Quoted(kNames[static_cast<int>(token.role)]) + "," + Quoted(token.label) + "," +
         ended + "]";
}
std::string Json(const client::NewToken& made) { return "[" + Quoted(made.text) + "," + Quoted(made.about.id) + "]"; }
std::string Json(const client::Worker& worker) {
  Object object;
  object.With("rank", worker.rank).With("state", worker.state).With("incarnation", worker.incarnation);
  object.With("host_id", worker.host_id).With("hostname", worker.hostname).With("pid", worker.pid);
  object.Raw("missed", worker.missed ? "true" : "false");
  return object.Raw("is_fresh", worker.silence < std::chrono::minutes(1) ? "true" : "false").text();
}
std::string Json(const client::Event& event) {
  return Object().With("at_ms", Milliseconds(event.at)).With("sentence", event.sentence).text();
}
std::string Json(const client::Checkpoint& checkpoint) {
  Object object;
  object.With("name", checkpoint.name).With("step", checkpoint.step).With("fencing_token", checkpoint.fencing_token);
  object.With("path", checkpoint.path).With("size_bytes", checkpoint.size_bytes).With("sha256", checkpoint.sha256);
  object.With("committed_ms", Milliseconds(checkpoint.committed)).With("epoch", checkpoint.epoch);
  return object.With("rank", checkpoint.rank).text();
}
std::string Json(const client::CheckpointRequest& request) {
  Object object;
  object.With("number", request.number).With("asker", request.asker).With("since_ms", Milliseconds(request.since));
  object.With("times", request.times).Raw("is_told", request.told.has_value() ? "true" : "false");
  object.Raw("is_pending", request.IsPending() ? "true" : "false").With("failure", request.failure);
  return object.Raw("checkpoint", request.checkpoint.has_value() ? Json(*request.checkpoint) : "null").text();
}
std::string Json(const client::Details& details) {
  Object object;
  object.Raw("job", Json(details.summary)).Raw("workers", Json(details.workers));
  const auto& request = details.checkpoint_request;
  object.Raw("checkpoint_request", request.has_value() ? Json(*request) : "null");
  return object.Raw("history", Json(details.history)).text();
}

std::string Json(uint64_t number) { return std::to_string(number); }
std::string Json(bool is_so) { return is_so ? "true" : "false"; }
// An array of what each is.
template <typename... Each>
std::string Row(const Each&... each) {
  std::string text;
  ((text += (text.empty() ? "" : ",") + Json(each)), ...);
  return "[" + text + "]";
}
std::string RowsOf(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += (text.empty() ? "" : ",") + row;
  return "[" + text + "]";
}

std::string Json(const client::TenantRecord& tenant) {
  Object object;
  object.With("name", tenant.name).With("max_jobs", tenant.max_jobs).With("max_workers", tenant.max_workers);
  object.With("cohort", tenant.cohort).With("weight", tenant.weight).With("borrow", tenant.borrow);
  object.With("max_store_bytes", tenant.max_store_bytes).With("tokens", tenant.tokens).With("jobs", tenant.jobs);
  object.With("workers", tenant.workers).With("queued_jobs", tenant.queued_jobs);
  object.With("queued_workers", tenant.queued_workers).With("created_ms", Milliseconds(tenant.created));
  return object.Raw("uses_store", Json(tenant.store_bytes > 0)).text();
}
std::string Json(const client::Timeline& timeline) {
  std::set<std::string> hosts;
  std::set<int> ranks;
  std::vector<std::string> numbers;
  uint64_t events = 0;
  bool is_packed = true;
  for (const client::TimelinePart& part : timeline.parts) {
    hosts.insert(part.hostname);
    ranks.insert(part.rank);
    numbers.push_back(std::to_string(part.number));
    events += part.events;
    is_packed = is_packed && part.lines_zlib.empty() == (part.lines_bytes == 0);
  }
  Object object;
  object.With("recording", timeline.recording).Raw("is_on", Json(timeline.is_on)).With("dropped", timeline.dropped);
  object.With("forgotten", timeline.forgotten).With("started_ms", Milliseconds(timeline.started));
  object.With("events", events).Raw("ranks", Json(std::vector<int>(ranks.begin(), ranks.end())));
  object.Raw("hosts", Json(std::vector<std::string>(hosts.begin(), hosts.end()))).Raw("numbers", RowsOf(numbers));
  return object.Raw("is_packed", Json(is_packed)).text();
}

// A rank's last submission.
std::string LastOf(const client::Flight& flight) {
  const client::Submission& last = flight.submissions.back();
  return Row(flight.rank.value_or(-1), static_cast<uint64_t>(flight.size), static_cast<uint64_t>(flight.pid), last.name,
             std::string(NameOf(last.progress)), last.operation, last.dtype, last.bytes,
             static_cast<uint64_t>(last.ordinal), last.age.count() > 0);
}
std::string Json(const client::RankFindings& rank) {
  Object object;
  object.With("rank", rank.rank).With("silence", rank.silence);
  const std::optional<client::Evidence>& evidence = rank.evidence;
  object.Raw("last", evidence.has_value() && evidence->flight.has_value() ? LastOf(*evidence->flight) : "null");
  if (!evidence.has_value()) return object.text();
  std::vector<std::string> threads;
  for (const client::Thread& thread : evidence->threads) threads.push_back(Row(thread.name, !thread.frames.empty()));
  object.Raw("threads", RowsOf(threads)).Raw("settings", Json(evidence->settings));
  object.With("kernel_threads", evidence->kernel_threads.size());
  return object.With("about_stacks", evidence->about_stacks).text();
}
std::string Json(const client::Findings& findings) {
  std::vector<std::string> waits;
  for (const client::Wait& wait : findings.waits) {
    waits.push_back(Row(wait.name, wait.operation, static_cast<uint64_t>(wait.group),
                        static_cast<uint64_t>(wait.ordinal), wait.waiting, wait.missing, wait.waited.count() > 0));
  }
  std::vector<std::string> stacks;
  for (const client::StackGroup& group : findings.stacks) {
    std::vector<std::string> functions;
    for (const client::Frame& frame : group.frames) functions.push_back(frame.function);
    stacks.push_back(Row(group.ranks, group.is_dominant, functions));
  }
  Object object;
  object.With("sentence", findings.sentence).With("epoch", findings.epoch).With("size", findings.size);
  object.Raw("waits", RowsOf(waits)).Raw("stacks", RowsOf(stacks)).Raw("ranks", Json(findings.ranks));
  const client::Time stalled = findings.stalled.value_or(client::Time());
  return object.With("stalled_ms", Milliseconds(stalled)).text();
}

std::string Json(client::Collectives told) {
  std::sort(told.costs.begin(), told.costs.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<std::string> costs, silent;
  for (const client::CollectiveCost& cost : told.costs) {
    std::vector<std::string> last;
    for (const client::LastArrival& one : cost.last) last.push_back(Row(one.rank, one.times > 0));
    const bool waits = cost.waited > cost.mean_wait && cost.mean_wait.count() > 0;
    std::string row = Row(cost.name, cost.operation, cost.bytes, cost.count, waits, cost.wait_percent > 0);
    row.pop_back();
    costs.push_back(row + ", " + RowsOf(last) + ", " + std::to_string(cost.least_wait_rank) + "]");
  }
  for (const client::RankFindings& rank : told.silent) silent.push_back(Row(rank.rank, rank.silence));
  Object object;
  object.With("epoch", told.epoch).With("size", told.size).With("answered", told.answered).With("found", told.found);
  object.Raw("silent", RowsOf(silent)).Raw("costs", RowsOf(costs)).Raw("is_over", Json(told.is_over));
  return object.With("asked_ms", Milliseconds(told.asked.value_or(client::Time()))).text();
}

int Tell(const Status& status) {
  if (status.ok()) return 0;
  const int code = static_cast<int>(status.code());
  std::cout << Object().With("error", code).With("sentence", status.message()).text() << std::endl;
  return 1;
}
template <typename Result>
int Tell(const StatusOr<Result>& result) {
  if (!result.ok()) return Tell(result.status());
  std::cout << Json(*result) << std::endl;
  return 0;
}

int Follow(const Client& client, const client::JobId& id) {
  for (client::Watch watch = client.Watch(id);;) {
    const StatusOr<std::optional<client::Details>> next = watch.Next();
    if (!next.ok() && next.status().code() == StatusCode::kNotFound) continue;  // its workers have not joined yet
    if (!next.ok()) return Tell(next.status());
    if (!next->has_value()) return 0;
    std::cout << Json(**next) << std::endl;
  }
}

// Behind its first page it waits for a writer of the FIFO `gate`.
class Walk {
 public:
  Walk(int page_size, std::string gate) : page_size_(page_size), gate_(std::move(gate)) {}
  bool Tell(const std::string& row) {
    std::cout << row << std::endl;
    if (++rows_ == page_size_) std::ifstream(gate_).get();
    return true;
  }

 private:
  const int page_size_;
  const std::string gate_;
  int rows_ = 0;
};

int WalkList(const Client& client, const std::vector<std::string>& words) {
  const int size = std::stoi(words.at(2));
  Walk walk(size, words.at(3));
  if (words[1] == "jobs")
    return Tell(client.EachJob([&](const client::Summary& job) { return walk.Tell(Quoted(job.name)); }, size));
  if (words[1] == "tenants") {
    const auto tell = [&](const client::TenantRecord& tenant) { return walk.Tell(Quoted(tenant.name)); };
    return Tell(client.EachTenant(tell, size));
  }
  if (words[1] == "tokens")
    return Tell(client.EachToken(
        "", [&](const client::Token& token) { return walk.Tell(Quoted(token.label)); }, size));
  const auto tell = [&](const client::Checkpoint& row) { return walk.Tell(std::to_string(row.step)); };
  return Tell(client.EachCheckpoint({words.at(4)}, tell, size));
}

// The words behind the tenant are NAME=VALUE.
int SetQuota(const Client& client, const std::vector<std::string>& words) {
  client::QuotaChange change;
  for (size_t at = 2; at < words.size(); ++at) {
    const size_t end = words[at].find('=');
    const std::string name = words[at].substr(0, end);
    const std::string value = words[at].substr(end + 1);
    const auto number = [&value] { return static_cast<uint32_t>(std::stoul(value)); };
    if (name == "cohort") change.cohort = value;
    if (name == "max_jobs") change.max_jobs = number();
    if (name == "max_workers") change.max_workers = number();
    if (name == "weight") change.weight = number();
    if (name == "borrow") change.borrow = number();
    if (name == "max_store_bytes") change.max_store_bytes = std::stoull(value);
  }
  return Tell(client.SetQuota(words.at(1), change));
}

int Diagnose(const Client& client, const std::vector<std::string>& words) {
  client::DiagnoseOptions options;
  for (const std::string& word : words) {
    if (word == "no-stacks") options.stacks = false;
    if (word == "last-stall") options.last_stall = true;
  }
  return Tell(client.Diagnose({words.at(1)}, options));
}

int Run(const Client& client, const std::vector<std::string>& words) {
  const std::string& command = words.at(0);
  const auto word = [&words](size_t at) { return at < words.size() ? words[at] : ""; };
  if (command == "jobs") return Tell(client.Jobs());
  if (command == "job") return Tell(client.Job({word(1), word(2)}));
  if (command == "checkpoints") return Tell(client.Checkpoints({word(1), word(2)}));
  if (command == "watch") return Follow(client, {word(1)});
  if (command == "delete") return Tell(client.Delete({word(1), word(2)}));
  if (command == "abort") return Tell(client.Abort({word(1), word(3)}, word(2)));
  if (command == "drain-rank") return Tell(client.DrainRank({word(1)}, std::stoi(word(2)), word(3)));
  if (command == "drain-host") return Tell(client.DrainHost({word(1)}, word(2), word(3)));
  if (command == "request-checkpoint") return Tell(client.RequestCheckpoint({word(1)}));
  if (command == "tenants") return Tell(client.Tenants());
  if (command == "set-quota") return SetQuota(client, words);
  if (command == "start-timeline") return Tell(client.StartTimeline({word(1)}, word(2) == "cycles"));
  if (command == "stop-timeline") return Tell(client.StopTimeline({word(1)}));
  if (command == "timeline") return Tell(client.Timeline({word(1)}));
  if (command == "diagnose") return Diagnose(client, words);
  if (command == "collectives") return Tell(client.Collectives({word(1)}));
  if (command == "walk") return WalkList(client, words);
  if (command == "delete-checkpoint") return Tell(client.DeleteCheckpoint({word(1)}, word(2), std::stoll(word(3))));
  if (command == "tokens") return Tell(client.Tokens(word(1)));
  if (command == "create-token") {
    // The only ones that tests ask for.
    const client::Role role = word(1) == "viewer" ? client::Role::kViewer : client::Role::kRoot;
    return Tell(client.CreateToken(role, word(2), word(3), std::chrono::seconds(std::stoi(word(4)))));
  }
  if (command == "rotate-token") {
    const auto made = client.RotateToken(word(1), std::chrono::seconds(std::stoi(word(2))));
    return made.ok() ? Tell(StatusOr<std::string>(made->text)) : Tell(made.status());
  }
  if (command == "revoke-token") return Tell(client.RevokeToken(word(1), word(2) == "all"));
  if (command == "create-tenant") return Tell(client.CreateTenant({word(1), 2, 8}));
  return Tell(Status(StatusCode::kInvalidArgument, "there is no command " + command));
}

client::Tls& TlsOf(client::Options* options) {
  if (!options->tls.has_value()) options->tls.emplace();
  return *options->tls;
}

}  // namespace

int main(int argc, char** argv) {
  StatusOr<client::Options> options = client::Options::FromEnvironment();
  if (!options.ok()) return Tell(options.status());
  std::vector<std::string> words(argv + 1, argv + argc);
  while (words.size() > 2 && words[0].rfind("--", 0) == 0) {
    const std::string option = words[0];
    const std::string value = words[1];
    words.erase(words.begin(), words.begin() + 2);
    if (option == "--patience") options->patience = std::chrono::milliseconds(std::stoi(value));
    if (option == "--token") options->token = value == "none" ? client::TokenSource() : client::TokenSource::Of(value);
    if (option == "--server-name") TlsOf(&*options).server_name = value;
    if (option == "--cert") TlsOf(&*options).cert_file = value;
    if (option == "--key") TlsOf(&*options).key_file = value;
  }
  signal(SIGINT, [](int) { stopped = 1; });
  options->watch_interval = std::chrono::milliseconds(50);
  options->interrupted = [] { return static_cast<int>(stopped); };
  const StatusOr<Client> client = Client::Open(*options);
  return client.ok() ? Run(*client, words) : Tell(client.status());
}
