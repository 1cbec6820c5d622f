#ifndef FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farandole/c_client_api.h"
#include "farandole/client_collectives.h"
#include "farandole/client_findings.h"
#include "farandole/client_options.h"
#include "farandole/client_types.h"
#include "farandole/library.h"
#include "farandole/status.h"
#include "farandole/wire.h"

/// @file
/// The control plane for services in C++: it lists, shows and watches jobs, ends them, has workers leave, and makes
/// tenants, as the command farandole does, by the same code in the library. A program that uses it need be no worker.
namespace farandole {
inline namespace sdk {
namespace client {

class Watch;

/// Speaks to one coordinator. Copies share the connection, and any thread may call their methods. Errors of all calls:
/// - UNAVAILABLE: the coordinator was unreachable or silent as long as Options::patience goes
/// - UNAUTHENTICATED: the token is not known, or TLS does not prove one side to the other
/// - PERMISSION_DENIED: the token does not allow it
/// - INVALID_ARGUMENT: a field is out of bounds
/// - UNIMPLEMENTED: the coordinator is of another version, or another program
/// - ABORTED: Options::interrupted said so
class Client {
 public:
  /// Nothing is sent before the first call. INVALID_ARGUMENT: the address or a file cannot be used.
  /// FAILED_PRECONDITION: there is no worker library.
  static StatusOr<Client> Open(Options options) {
    const StatusOr<Functions>& library = Library();
    if (!library.ok()) return library.status();
    farandole_client_options given = {};
    given.struct_bytes = sizeof(given);
    given.address = options.address.c_str();
    given.coordinator_users = options.coordinator_users.c_str();
    if (const std::optional<Tls>& tls = options.tls; tls.has_value()) {
      given.use_tls = 1;
      given.ca_file = tls->ca_file.c_str();
      given.cert_file = tls->cert_file.c_str();
      given.key_file = tls->key_file.c_str();
      given.server_name = tls->server_name.c_str();
    }
    farandole_client* made = nullptr;
    if (const int code = library->client_open(&given, &made); code != FARANDOLE_OK) return StatusOf(*library, code);
    return Client(&*library, std::shared_ptr<farandole_client>(made, library->client_close), std::move(options));
  }

  /// The jobs that the token may see, the newest first.
  StatusOr<std::vector<Summary>> Jobs() const {
    return All<Summary>([this](const auto& visit) { return EachJob(visit); });
  }
  /// The same in pages of `page_size` jobs (0 and more than 1,000: 1,000), each of which is asked for when the one
  /// before it is used up: calls `visit` for one after the other, until it gives false. Jobs that start meanwhile are
  /// left out; all that stay are visited once.
  Status EachJob(const std::function<bool(const Summary&)>& visit, uint32_t page_size = 0) const {
    return Walk<Summary, 80>("MonitorService/ListJobs", {}, page_size, "refused to list its jobs", visit);
  }
  /// One job with its workers and its history. NOT_FOUND: the tenant has no such job.
  StatusOr<Details> Job(const JobId& id) const { return Job(id, options_.patience); }
  /// A job's catalogue, the oldest first. NOT_FOUND: the tenant has no such job.
  StatusOr<std::vector<Checkpoint>> Checkpoints(const JobId& id) const {
    return All<Checkpoint>([&](const auto& visit) { return EachCheckpoint(id, visit); });
  }
  /// The same as EachJob does it. All that stay are visited once, and those that are committed meanwhile.
  Status EachCheckpoint(const JobId& id, const std::function<bool(const Checkpoint&)>& visit,
                        uint32_t page_size = 0) const {
    return Walk<Checkpoint, 80>("MonitorService/ListCheckpoints", WireWriter().Text(1, id.name).Text(2, id.tenant),
                                page_size, "refused to list the checkpoints of " + id.ToString(), visit);
  }
  /// Takes a checkpoint out of a job's catalogue, by its name and step, and gives it as it was there. Its file stays,
  /// at `path` of its host. Needs a token of an operator. NOT_FOUND: there is no such job or checkpoint.
  StatusOr<Checkpoint> DeleteCheckpoint(const JobId& id, const std::string& name, int64_t step) const {
    WireWriter request;
    request.Text(1, id.tenant).Text(2, id.name).Text(3, name).Number(4, static_cast<uint64_t>(step)).Text(5, NewKey());
    return Only<Checkpoint>("AdminService/DeleteCheckpoint", request,
                            "refused to delete a checkpoint of " + id.ToString());
  }
  /// Asks a job's program to write a checkpoint soon, where it calls CheckpointRequested(). A call joins a request that
  /// is pending. Details::checkpoint_request tells what comes of it. Needs a token of an operator, or that of the
  /// launcher that started it. NOT_FOUND: the tenant has no such job. FAILED_PRECONDITION: it has ended.
  StatusOr<CheckpointRequest> RequestCheckpoint(const JobId& id) const {
    WireWriter message;
    message.Text(1, id.tenant).Text(2, id.name).Text(3, NewKey());
    return Only<CheckpointRequest>("AdminService/RequestCheckpoint", message,
                                   "refused to ask " + id.ToString() + " for a checkpoint");
  }
  /// Follows one job; nothing is sent before its Next().
  client::Watch Watch(const JobId& id) const;

  /// Ends a job. The reason is one sentence of at most 1,024 bytes; it reaches every worker. Needs a token of an
  /// operator, or that of the launcher that started it. NOT_FOUND: the tenant has no such job.
  Status Abort(const JobId& id, const std::string& reason) const {
    WireWriter request;
    request.Text(1, id.tenant).Text(2, id.name).Text(3, reason).Text(4, NewKey());
    return Call<Nothing>("AdminService/AbortJob", request, "refused to end " + id.ToString(), options_.patience)
        .status();
  }
  /// Deletes a job that has ended, with its history and its catalogue of checkpoints; their files stay. Needs a
  /// token of an operator. NOT_FOUND: the tenant has no such job. FAILED_PRECONDITION: it forms or runs.
  Status Delete(const JobId& id) const {
    WireWriter request;
    request.Text(1, id.tenant).Text(2, id.name).Text(3, NewKey());
    return Call<Nothing>("AdminService/DeleteJob", request, "refused to delete " + id.ToString(), options_.patience)
        .status();
  }
  /// Has the worker of a rank of an elastic job leave at the program's next commit; the ranks that were asked.
  /// - NOT_FOUND: the tenant has no such job, or the job no such rank
  /// - FAILED_PRECONDITION: the job is not elastic, no epoch runs, or too few would remain
  StatusOr<std::vector<int>> DrainRank(const JobId& id, int rank, const std::string& reason) const {
    if (rank < 0) {
      return Status(StatusCode::kInvalidArgument,
                    "rank " + std::to_string(rank) + " of " + id.ToString() + " is not from 0 to 65535");
    }
    return Drain(id, WireWriter().Always(3, static_cast<uint64_t>(rank)), reason);
  }
  /// The same for all workers of a host, by Worker::hostname.
  StatusOr<std::vector<int>> DrainHost(const JobId& id, const std::string& hostname, const std::string& reason) const {
    return Drain(id, WireWriter().Text(4, hostname), reason);
  }
  /// Makes a tenant; its first token, of which the coordinator keeps the hash only. ALREADY_EXISTS: there is one of
  /// this name.
  StatusOr<std::string> CreateTenant(const Tenant& tenant) const {
    WireWriter request;
    request.Text(1, tenant.name).Number(2, tenant.max_jobs).Number(3, tenant.max_workers).Text(4, NewKey());
    StatusOr<NewToken> made = Call<NewToken>("AdminService/CreateTenant", request,
                                             "refused to make tenant " + tenant.name, options_.patience);
    if (!made.ok()) return made.status();
    return std::move(made->text);
  }
  /// The tenants that the token may see, by name, with their quotas and what they use of them.
  StatusOr<std::vector<TenantRecord>> Tenants() const {
    return All<TenantRecord>([this](const auto& visit) { return EachTenant(visit); });
  }
  /// The same as EachJob does it.
  Status EachTenant(const std::function<bool(const TenantRecord&)>& visit, uint32_t page_size = 0) const {
    return Walk<TenantRecord, 1, 2>("AccessService/ListTenants", {}, page_size, "refused to list its tenants", visit);
  }
  /// Sets a tenant's quota; the tenant as it is then, but for `created` and `tokens`. Jobs that run go on in any case.
  /// Needs a token of root. NOT_FOUND: there is no such tenant.
  StatusOr<TenantRecord> SetQuota(const std::string& tenant, const QuotaChange& change) const {
    WireWriter request;
    request.Text(1, tenant).Text(7, NewKey());
    if (change.max_jobs.has_value()) request.Always(2, *change.max_jobs);
    if (change.max_workers.has_value()) request.Always(3, *change.max_workers);
    if (change.cohort.has_value()) request.AlwaysText(4, *change.cohort);
    if (change.weight.has_value()) request.Always(5, *change.weight);
    if (change.borrow.has_value()) request.Always(6, *change.borrow);
    if (change.max_store_bytes.has_value()) request.Always(8, *change.max_store_bytes);
    return Only<TenantRecord>("AdminService/SetQuota", request, "refused to set the quota of tenant " + tenant);
  }

  /// Has all workers of a job record what their tensors wait for, also those of later epochs; a sentence that says so.
  /// `marks_cycles`: also the beginning of each batch. A new recording replaces the last one. Needs a token of an
  /// operator. NOT_FOUND: the tenant has no such job. FAILED_PRECONDITION: it has ended, or records already.
  StatusOr<std::string> StartTimeline(const JobId& id, bool marks_cycles = false) const {
    WireWriter request;
    request.Text(1, id.tenant).Text(2, id.name).Number(3, 1).Number(4, marks_cycles ? 1 : 0).Text(5, NewKey());
    return Only<std::string>("AdminService/RecordTimeline", request, "refused to start a timeline of " + id.ToString());
  }
  /// Ends the recording, with each rank's last events; a sentence that says so. Needs a token of an operator.
  /// NOT_FOUND: the tenant has no such job. FAILED_PRECONDITION: it records nothing.
  StatusOr<std::string> StopTimeline(const JobId& id) const {
    WireWriter request;
    request.Text(1, id.tenant).Text(2, id.name).Text(5, NewKey());
    return Only<std::string>("AdminService/RecordTimeline", request, "refused to stop a timeline of " + id.ToString());
  }
  /// The events that a job has recorded so far, or recorded last, at most 32 MiB. They can be read for an hour after
  /// the job's end. NOT_FOUND: the tenant has no such job, or it has recorded nothing.
  StatusOr<client::Timeline> Timeline(const JobId& id) const {
    client::Timeline found;
    do {
      WireWriter request;
      request.Text(1, id.name).Text(2, id.tenant).Number(3, found.next);
      StatusOr<client::Timeline> answer = Call<client::Timeline>(
          "MonitorService/GetTimeline", request, "refused to give the timeline of " + id.ToString(), options_.patience);
      if (!answer.ok()) return answer.status();
      // A new recording that has replaced it meanwhile is read from its beginning.
      const bool is_replaced = found.recording != 0 && found.recording != answer->recording;
      std::vector<TimelinePart> parts = is_replaced ? std::vector<TimelinePart>() : std::move(found.parts);
      if (!is_replaced) std::move(answer->parts.begin(), answer->parts.end(), std::back_inserter(parts));
      found = is_replaced ? client::Timeline() : *std::move(answer);
      found.parts = std::move(parts);
    } while (found.recording == 0 || found.next != 0);
    return found;
  }
  /// Asks the workers of a job what they do, which takes 4 s at most: their latest collectives, who waits for whom, and
  /// the stacks of their programs; those who ask within 4 s share an answer. Of a job that has ended: what they did
  /// last.
  /// - NOT_FOUND: the tenant has no such job, or it has not stalled
  /// - FAILED_PRECONDITION: no rank answered when it stalled
  /// - RESOURCE_EXHAUSTED: several such calls of the job wait already
  StatusOr<Findings> Diagnose(const JobId& id, const DiagnoseOptions& options = {}) const {
    WireWriter request;
    request.Text(1, id.name).Text(2, id.tenant);
    request.Number(3, options.stacks ? 1 : 0).Number(4, options.last_stall ? 1 : 0);
    return Call<Findings>("MonitorService/Diagnose", request, "refused to diagnose " + id.ToString(),
                          options_.patience);
  }

  /// Asks the workers of a job what its tensors cost since the epoch began, which takes 4 s at most; those who ask
  /// within 4 s share an answer. Of a job that has ended: the last answer.
  /// - NOT_FOUND: the tenant has no such job, or nothing is known of its tensors
  /// - RESOURCE_EXHAUSTED: too many calls wait already
  StatusOr<client::Collectives> Collectives(const JobId& id) const {
    return Call<client::Collectives>("MonitorService/SurveyCollectives",
                                     WireWriter().Text(1, id.name).Text(2, id.tenant),
                                     "refused to ask for the collectives of " + id.ToString(), options_.patience);
  }

  /// A tenant's tokens, by time; "": those of all tenants that the token may see. Needs the role admin, as the other
  /// calls about tokens do.
  StatusOr<std::vector<Token>> Tokens(const std::string& tenant = "") const {
    return All<Token>([&](const auto& visit) { return EachToken(tenant, visit); });
  }
  /// The same as EachJob does it.
  Status EachToken(const std::string& tenant, const std::function<bool(const Token&)>& visit,
                   uint32_t page_size = 0) const {
    return Walk<Token, 2>("AccessService/ListTokens", WireWriter().Text(1, tenant), page_size,
                          "refused to list its tokens", visit);
  }
  /// Makes a token of a tenant ("": the own one); `lifetime` is at most 90 days, zero: 30 days.
  /// - PERMISSION_DENIED: the role is above the own one
  /// - NOT_FOUND: there is no such tenant
  /// - RESOURCE_EXHAUSTED: the tenant has too many tokens
  StatusOr<NewToken> CreateToken(Role role, const std::string& tenant = "", const std::string& label = "",
                                 std::chrono::seconds lifetime = std::chrono::seconds(0)) const {
    if (lifetime.count() < 0) return NegativeSpan("lifetime", lifetime);
    WireWriter request;
    request.Text(1, tenant).Number(2, static_cast<uint64_t>(role)).Text(3, label);
    request.Number(4, static_cast<uint64_t>(lifetime.count())).Text(5, NewKey());
    return Call<NewToken>("AccessService/CreateToken", request, "refused to make a token", options_.patience);
  }
  /// Gives a token a new text, and lets the old one be good for `overlap`, at most 7 days. Runs that were launched with
  /// it go on. NOT_FOUND: there is no such token. FAILED_PRECONDITION: it was revoked.
  StatusOr<NewToken> RotateToken(const std::string& id, std::chrono::seconds overlap = std::chrono::seconds(0)) const {
    if (overlap.count() < 0) return NegativeSpan("overlap", overlap);
    WireWriter request;
    request.Text(1, id).Number(2, static_cast<uint64_t>(overlap.count())).Text(3, NewKey());
    return Call<NewToken>("AccessService/RotateToken", request, "refused to rotate token " + id, options_.patience);
  }
  /// Ends a token, and within a second its streams and the runs that were launched with it; `and_made_with_it`: also
  /// the tokens that were made or rotated with it, and with those. How many tokens have ended. NOT_FOUND: there is no
  /// such token.
  StatusOr<int> RevokeToken(const std::string& id, bool and_made_with_it = false) const {
    WireWriter request;
    request.Text(1, id).Number(2, and_made_with_it ? 1 : 0).Text(4, NewKey());
    const StatusOr<Revoked> revoked =
        Call<Revoked>("AccessService/RevokeToken", request, "refused to revoke token " + id, options_.patience);
    if (!revoked.ok()) return revoked.status();
    return revoked->ended;
  }

  const Options& options() const { return options_; }

 private:
  friend class client::Watch;
  struct Nothing {};
  // A page of a list, whose answer has the next page's token in field kNext.
  template <typename Row, int kNext>
  struct Page {
    std::vector<Row> rows;
    std::string next;
  };
  // An answer with one field.
  template <typename Value>
  struct Field {
    Value value;
  };
  struct Revoked {
    int ended = 0;
  };

  Client(const Functions* functions, std::shared_ptr<farandole_client> connection, Options options)
      : functions_(functions), connection_(std::move(connection)), options_(std::move(options)) {}

  static void Read(WireReader reader, Nothing*) {
    while (reader.Next()) continue;
  }
  template <typename Row, int kNext>
  static void Read(WireReader reader, Page<Row, kNext>* page) {
    while (reader.Next()) {
      if (reader.field() == 1) client::Read(reader.Message(), &page->rows.emplace_back());
      if (reader.field() == kNext) page->next = reader.Text();
    }
  }
  template <typename Value>
  static void Read(WireReader reader, Field<Value>* answer) {
    while (reader.Next()) {
      if (reader.field() == 1) client::Read(reader.Message(), &answer->value);
    }
  }
  static void Read(WireReader reader, Field<std::string>* answer) {
    while (reader.Next()) {
      if (reader.field() == 1) answer->value = reader.Text();
    }
  }
  static void Read(WireReader reader, Revoked* revoked) {
    while (reader.Next()) {
      if (reader.field() == 1) revoked->ended = reader.As<int>();
    }
  }
  static Status NegativeSpan(const std::string& what, std::chrono::seconds span) {
    return Status(StatusCode::kInvalidArgument,
                  "the " + what + " of a token is " + std::to_string(span.count()) + " s, and not at least 0");
  }
  static void Read(WireReader reader, std::vector<int>* ranks) {
    while (reader.Next()) {
      if (reader.field() == 1) *ranks = reader.Numbers<int>();
    }
  }
  template <typename Answer>
  static void Read(WireReader reader, Answer* answer) {
    client::Read(reader, answer);
  }

  StatusOr<Details> Job(const JobId& id, std::chrono::milliseconds patience) const {
    return Call<Details>("MonitorService/GetJob", WireWriter().Text(1, id.name).Text(2, id.tenant),
                         "refused to show " + id.ToString(), patience);
  }
  StatusOr<std::vector<int>> Drain(const JobId& id, WireWriter what, const std::string& reason) const {
    what.Text(1, id.tenant).Text(2, id.name).Text(5, reason).Text(6, NewKey());
    return Call<std::vector<int>>("AdminService/DrainWorkers", what, "refused to drain workers of " + id.ToString(),
                                  options_.patience);
  }

  // Visits the rows of a list, page by page. The request has the size of a page in field kPlace, and the page's token
  // behind that.
  template <typename Row, int kPlace, int kNext = kPlace, typename Visit>
  Status Walk(const char* method, const WireWriter& message, uint32_t page_size, const std::string& refusal,
              const Visit& visit) const {
    std::string next;
    do {
      WireWriter request = message;
      request.Number(kPlace, page_size).Text(kPlace + 1, next);
      StatusOr<Page<Row, kNext>> page = Call<Page<Row, kNext>>(method, request, refusal, options_.patience);
      if (!page.ok()) return page.status();
      for (const Row& row : page->rows) {
        if (!visit(row)) return Status();
      }
      next = std::move(page->next);
    } while (!next.empty());
    return Status();
  }
  // All that `walk` visits.
  template <typename Row, typename Walk>
  static StatusOr<std::vector<Row>> All(const Walk& walk) {
    std::vector<Row> rows;
    const Status walked = walk([&](const Row& row) {
      rows.push_back(row);
      return true;
    });
    if (!walked.ok()) return walked;
    return rows;
  }

  // The one field of an answer.
  template <typename Value>
  StatusOr<Value> Only(const char* method, const WireWriter& message, const std::string& refusal) const {
    StatusOr<Field<Value>> answer = Call<Field<Value>>(method, message, refusal, options_.patience);
    if (!answer.ok()) return answer.status();
    return std::move(answer->value);
  }
  template <typename Answer>
  StatusOr<Answer> Call(const char* method, const WireWriter& message, const std::string& refusal,
                        std::chrono::milliseconds patience) const {
    const StatusOr<std::string> token = options_.token.Get();
    if (!token.ok()) {
      return Status(token.status().code(), token.status().message() + ", for coordinator " + options_.address);
    }
    farandole_client_request request = {};
    request.struct_bytes = sizeof(request);
    request.method = method;
    request.message = message.bytes().data();
    request.message_bytes = static_cast<int64_t>(message.bytes().size());
    request.token = token->c_str();
    request.token_origin = options_.token.origin().c_str();
    request.refusal = refusal.c_str();
    request.patience_ms = patience.count();
    const void* answer = nullptr;
    int64_t bytes = 0;
    const int code = functions_->client_call(connection_.get(), &request, &answer, &bytes, options_.interrupted);
    if (code != FARANDOLE_OK) return StatusOf(*functions_, code);
    Answer read;
    Read(WireReader(std::string_view(static_cast<const char*>(answer), static_cast<size_t>(bytes))), &read);
    return read;
  }

  // Of a change, so that a repeated call changes nothing twice.
  static std::string NewKey() {
    std::random_device source;
    char key[40];
    std::snprintf(key, sizeof(key), "%08x%08x%08x%08x", source(), source(), source(), source());
    return key;
  }

  const Functions* functions_;
  std::shared_ptr<farandole_client> connection_;  // shared by copies
  Options options_;
};

/// Follows one job. One thread at a time. A Watch starts no thread and needs no end.
class Watch {
 public:
  Watch(Client client, JobId id) : client_(std::move(client)), id_(std::move(id)) {}

  /// The job at once for the first time, and then whenever it has changed: its state, reason, epoch, size, stall,
  /// history, or its workers' states. Rates and loads alone are no change. After a job that has ended: none.
  ///
  /// A coordinator that is away, as while it is restarted, does not end a Watch: Next goes on until it is interrupted.
  /// It asks every Options::watch_interval, since the service has no stream, also after an error such as NOT_FOUND.
  StatusOr<std::optional<Details>> Next() {
    if (last_.has_value() && last_->summary.HasEnded()) return std::optional<Details>();
    for (;;) {
      if (std::exchange(was_asked_, true) && Pause()) {
        return Status(StatusCode::kAborted, "the watch of " + id_.ToString() + " was given up");
      }
      StatusOr<Details> found = client_.Job(id_, std::chrono::milliseconds::max());
      if (!found.ok()) return found.status();
      if (last_.has_value() && !HasChanged(*last_, *found)) continue;
      last_ = *found;
      return std::optional<Details>(*std::move(found));
    }
  }

 private:
  // True: it was interrupted.
  bool Pause() const {
    const auto end = std::chrono::steady_clock::now() + client_.options_.watch_interval;
    std::mutex mutex;
    std::condition_variable never;
    std::unique_lock<std::mutex> lock(mutex);
    while (std::chrono::steady_clock::now() < end) {
      never.wait_until(lock, std::min(end, std::chrono::steady_clock::now() + std::chrono::milliseconds(100)));
      if (client_.options_.interrupted != nullptr && client_.options_.interrupted() != 0) return true;
    }
    return false;
  }

  static bool HasChanged(const Details& before, const Details& after) {
    const Summary& old = before.summary;
    const Summary& now = after.summary;
    const auto bounds = [](const Summary& job) {
      const Elastic elastic = job.elastic.value_or(Elastic());
      return std::vector<uint32_t>{elastic.min_size, elastic.max_size, elastic.waiting, elastic.resets};
    };
    const auto is_same_worker = [](const Worker& one, const Worker& other) {
      return one.rank == other.rank && one.state == other.state && one.incarnation == other.incarnation;
    };
    const auto is_same_event = [](const Event& one, const Event& other) {
      return one.at == other.at && one.sentence == other.sentence;
    };
    return old.state != now.state || old.reason != now.reason || old.epoch != now.epoch || old.size != now.size ||
           old.wanted_size != now.wanted_size || old.last_stall != now.last_stall ||
           old.last_stall_at != now.last_stall_at || bounds(old) != bounds(now) ||
           !std::equal(before.history.begin(), before.history.end(), after.history.begin(), after.history.end(),
                       is_same_event) ||
           !std::equal(before.workers.begin(), before.workers.end(), after.workers.begin(), after.workers.end(),
                       is_same_worker);
  }

  Client client_;
  JobId id_;
  std::optional<Details> last_;
  bool was_asked_ = false;
};

inline client::Watch Client::Watch(const JobId& id) const { return client::Watch(*this, id); }

}  // namespace client
}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_CLIENT_H_
