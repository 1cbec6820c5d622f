#ifndef FARANDOLE_SDK_CPP_FARANDOLE_ELASTIC_H_
#define FARANDOLE_SDK_CPP_FARANDOLE_ELASTIC_H_

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "farandole/job.h"

/// @file
/// Elastic training: workers may come and go, and the program goes on in the same processes.
///
///     elastic::State state(&job);
///     state.Track(&weights);
///     state.Track(&step);
///     Status status = elastic::Run(&state, [&]() -> Status {
///       while (step < steps) {
///         ...
///         if (Status status = job.AllreduceInPlace(gradient, "gradient"); !status.ok()) return status;
///         ...
///         if (Status status = state.Commit(); !status.ok()) return status;
///       }
///       return Status();
///     });
namespace farandole {
inline namespace sdk {
namespace elastic {

/// The values that all ranks share and a newcomer needs. One thread at a time.
class State {
 public:
  explicit State(Job* job) : job_(job) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Job& job() const { return *job_; }

  /// Adds a value, which must outlive this: a number or another type that may be copied by bytes.
  template <typename T>
  void Track(T* value) {
    static_assert(
        std::is_trivially_copyable_v<T>,
        "a value of the state is trivially copyable, a std::vector of such, or a std::string; for others give "
        "Track() two functions");
    Add({[value] { return std::string(reinterpret_cast<const char*>(value), sizeof(T)); },
         [value](const std::string& bytes) { std::memcpy(value, bytes.data(), sizeof(T)); },
         [](size_t bytes) { return bytes == sizeof(T); }});
  }
  template <typename T>
  void Track(std::vector<T>* values) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>,
                  "the elements of a vector of the state are copied by bytes");
    Add({[values] { return std::string(reinterpret_cast<const char*>(values->data()), values->size() * sizeof(T)); },
         [values](const std::string& bytes) {
           values->resize(bytes.size() / sizeof(T));
           if (!bytes.empty()) std::memcpy(values->data(), bytes.data(), bytes.size());
         },
         [](size_t bytes) { return bytes % sizeof(T) == 0; }});
  }
  void Track(std::string* text) {
    Track([text] { return *text; }, [text](const std::string& bytes) { *text = bytes; });
  }
  /// Any other value: how its bytes are made, and how it is made of them. Each overload saves its value as it is.
  void Track(std::function<std::string()> save, std::function<void(const std::string&)> restore) {
    Add({std::move(save), std::move(restore), [](size_t) { return true; }});
  }
  /// Has a function called in each further epoch, before the state is shared: for values that depend on rank() and
  /// size().
  void OnReset(std::function<void()> function) { resets_.push_back(std::move(function)); }

  /// Saves the state, which a loss goes back to, and checks for changes as CheckForChanges. All ranks call it at the
  /// same points of the program. Costs a copy of the state in memory.
  Status Commit() {
    Save();
    ++commits_;
    return CheckForChanges();
  }
  /// Agrees among all ranks whether workers want to join or leave: some microseconds, and nothing where the job is not
  /// elastic. WORKERS_CHANGE, on all ranks at once: they do; return it from the function that Run() calls. ABORTED: a
  /// worker has died.
  Status CheckForChanges();

  /// Keeps a copy of the values in this process's memory; takes them back to it.
  void Save() { saved_ = Pack(); }
  void Restore() { static_cast<void>(Unpack(saved_)); }
  /// Gives the state of the most advanced rank, which has the most commits and is the lowest of equals, to all, which
  /// then have saved it. Collective. DATA_LOSS: it does not prove that a worker of this epoch has sent it; nothing was
  /// changed.
  Status Sync();

 private:
  template <typename Train>
  friend Status Run(State* state, Train&& train);

  struct Value {
    std::function<std::string()> save;
    std::function<void(const std::string&)> restore;
    // Whether it can be restored from so many bytes.
    bool (*fits)(size_t bytes);
  };
  // As in Python's farandole.elastic, with which names, types and numbers agree.
  static constexpr int64_t kMostRanks = 1 << 16;
  static constexpr int64_t kAdded = 2;
  static constexpr int64_t kRemoved = 1;
  static constexpr int64_t kProofBytes = 32;

  void Add(Value value) {
    Append(value, &saved_);
    values_.push_back(std::move(value));
  }
  // Begins a further epoch.
  void Reset() {
    for (const std::function<void()>& reset : resets_) reset();
  }
  // Whether any rank wants to share the state.
  StatusOr<bool> AnyRankWantsSync() {
    int64_t wants[1] = {wants_sync_ ? 1 : 0};
    if (Status status = AgreeOnMost("farandole.elastic.sync", wants); !status.ok()) return status;
    return wants[0] == 1;
  }
  // A value as it is, after the number of its bytes.
  static void Append(const Value& value, std::string* packed) {
    const std::string bytes = value.save();
    const auto size = static_cast<uint64_t>(bytes.size());
    packed->append(reinterpret_cast<const char*>(&size), sizeof(size)).append(bytes);
  }
  std::string Pack() const {
    std::string packed;
    for (const Value& value : values_) Append(value, &packed);
    return packed;
  }
  // INVALID_ARGUMENT: they are of a program that tracks other values; nothing was changed.
  Status Unpack(const std::string& packed);
  // Has the root prove what it has packed to the others. Collective.
  Status Prove(const std::string& packed, int64_t advanced, int root);
  template <size_t kCount>
  Status AgreeOnMost(const char* name, int64_t (&values)[kCount]) {
    return job_->AllreduceInPlace(values, Call(name).With(ReduceOp::kMax));
  }
  void TellOfSigterm();

  Job* const job_;
  std::vector<Value> values_;
  std::vector<std::function<void()>> resets_;
  std::string saved_;
  int64_t commits_ = 0;
  bool wants_sync_ = true;
};

/// Within it the first SIGTERM has this rank leave in order at its next commit, and the second ends the process. If the
/// program handles SIGTERM itself, or the job is not elastic, nothing is changed.
class SigtermWatch {
 public:
  explicit SigtermWatch(const Job& job) {
    struct sigaction present = {};
    sigaction(SIGTERM, nullptr, &present);
    if (!job.is_elastic() || present.sa_handler != SIG_DFL) return;
    Came() = 0;
    struct sigaction wanted = {};
    wanted.sa_handler = [](int) {
      Came() = 1;
      constexpr char kWords[] = "farandole: SIGTERM: this worker leaves the job at its next commit\n";
      // Nothing else can be done where stderr cannot be written.
      if (write(STDERR_FILENO, kWords, sizeof(kWords) - 1) < 0) return;
    };
    wanted.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
    is_set_ = sigaction(SIGTERM, &wanted, nullptr) == 0;
  }
  SigtermWatch(const SigtermWatch&) = delete;
  SigtermWatch& operator=(const SigtermWatch&) = delete;
  ~SigtermWatch() {
    if (is_set_) signal(SIGTERM, SIG_DFL);
  }
  /// Whether a signal has come that was not reported yet.
  static bool Take() {
    const bool came = Came() != 0;
    Came() = 0;
    return came;
  }

 private:
  static volatile sig_atomic_t& Came() {
    static volatile sig_atomic_t came = 0;
    return came;
  }
  bool is_set_ = false;
};

inline void State::TellOfSigterm() {
  if (!SigtermWatch::Take()) return;
  // The program has left the job meanwhile: there is no coordinator to tell.
  static_cast<void>(job_->functions().depart(DepartGrace().count(), "its process was sent SIGTERM"));
}

inline Status State::CheckForChanges() {
  if (!job_->is_elastic()) return Status();
  TellOfSigterm();
  farandole_change change = {};
  change.struct_bytes = sizeof(change);
  int64_t changes[2] = {0, 0};
  if (job_->functions().change_wanted(&change) == FARANDOLE_OK && change.serial != 0) {
    changes[0] = change.joining > 0 ? kAdded : 0;
    changes[1] = change.leaving > 0 ? kRemoved : 0;
  }
  if (Status status = AgreeOnMost("farandole.elastic.check", changes); !status.ok()) return status;
  if (changes[0] == 0 && changes[1] == 0) return Status();
  // Ranks that stay have one state already where workers only go.
  wants_sync_ = changes[0] != 0;
  return Status(StatusCode::kWorkersChange, wants_sync_ ? "workers join the job" : "workers leave the job");
}

inline Status State::Unpack(const std::string& packed) {
  std::vector<std::string> parts;
  uint64_t size = 0;
  for (size_t at = 0; at + sizeof(size) <= packed.size(); at += sizeof(size) + size) {
    std::memcpy(&size, packed.data() + at, sizeof(size));
    if (size > packed.size() - at - sizeof(size)) break;
    parts.push_back(packed.substr(at + sizeof(size), size));
  }
  if (parts.size() != values_.size()) {
    return Status(StatusCode::kInvalidArgument, "the state that the ranks share has " + std::to_string(parts.size()) +
                                                    " values, and rank " + std::to_string(job_->rank()) + " tracks " +
                                                    std::to_string(values_.size()));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (values_[i].fits(parts[i].size())) continue;
    return Status(StatusCode::kInvalidArgument, "value " + std::to_string(i + 1) +
                                                    " of the state that the ranks share has " +
                                                    std::to_string(parts[i].size()) + " bytes, and rank " +
                                                    std::to_string(job_->rank()) + " tracks another type there");
  }
  for (size_t i = 0; i < parts.size(); ++i) values_[i].restore(parts[i]);
  return Status();
}

/// The proof is short: it travels with what orders the collectives, which nobody can change.
inline Status State::Prove(const std::string& packed, int64_t advanced, int root) {
  const std::string label = "elastic::State " + std::to_string(advanced);
  uint8_t made[kProofBytes] = {};
  const int code = job_->functions().prove(label.c_str(), packed.data(), static_cast<int64_t>(packed.size()), made);
  if (code != FARANDOLE_OK) return StatusOf(job_->functions(), code);
  uint8_t sent[kProofBytes];
  std::memcpy(sent, made, sizeof(sent));
  if (Status status = job_->BroadcastInPlace(sent, root, "farandole.elastic.proof"); !status.ok()) return status;
  if (std::memcmp(sent, made, sizeof(sent)) == 0) return Status();
  return Status(StatusCode::kDataLoss, "the state of rank " + std::to_string(root) +
                                           " was changed on its way over the network, and is not restored: it does not "
                                           "prove that a worker of this epoch has sent it");
}

inline Status State::Sync() {
  int64_t most[1] = {commits_ * kMostRanks + kMostRanks - 1 - job_->rank()};
  if (Status status = AgreeOnMost("farandole.elastic.advanced", most); !status.ok()) return status;
  const auto root = static_cast<int>(kMostRanks - 1 - most[0] % kMostRanks);
  std::string packed = root == job_->rank() ? Pack() : std::string();
  if (Status status = job_->BroadcastBytes(&packed, root, "farandole.elastic.state"); !status.ok()) return status;
  if (Status status = Prove(packed, most[0], root); !status.ok()) return status;
  if (root != job_->rank()) {
    if (Status status = Unpack(packed); !status.ok()) return status;
  }
  saved_ = std::move(packed);
  commits_ = most[0] / kMostRanks;
  return Status();
}

/// Calls `train` anew in each epoch until it gives OK or an error of its own, which is the result: after a loss with
/// the state of the last commit, which the most advanced of those that are left gives to all; after workers have come
/// or gone in order, with the state as it was. `train` returns the errors of operations, Commit and CheckForChanges as
/// they are. Its actions follow from the state, rank() and size().
///
/// Operations before it, other than Init(), would meet no peers on a worker that joins later.
/// - CANCELLED: the job has no place for this process any more: the program ends with code 0, as ExitOnError does
/// - ABORTED: in a job that is not elastic, the epoch has ended (the state is restored); in one that is, the job has
///   failed. The text says why.
template <typename Train>
Status Run(State* state, Train&& train) {
  Job& job = state->job();
  const SigtermWatch watch(job);
  for (bool is_first = true;; is_first = false) {
    Status status = is_first ? Status() : job.Rejoin();
    // The library itself goes on from epochs that end meanwhile.
    if (!status.ok()) return status;
    if (!is_first) state->Reset();
    const StatusOr<bool> is_wanted = state->AnyRankWantsSync();
    status = !is_wanted.ok() ? is_wanted.status() : *is_wanted ? state->Sync() : Status();
    if (status.ok()) {
      state->wants_sync_ = false;
      status = train();
    }
    if (status.code() == StatusCode::kWorkersChange) {
      // All ranks leave with the same state: a later loss goes back to it, and newcomers get it.
      state->Save();
    } else if (status.code() == StatusCode::kAborted) {
      state->Restore();
      state->wants_sync_ = true;
      if (!job.is_elastic()) return status;
    } else {
      return status;
    }
  }
}

}  // namespace elastic
}  // namespace sdk
}  // namespace farandole

#endif  // FARANDOLE_SDK_CPP_FARANDOLE_ELASTIC_H_
