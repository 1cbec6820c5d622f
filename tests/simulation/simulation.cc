#include "tests/simulation/simulation.h"

#include <algorithm>
#include <iterator>
#include <regex>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace farandole {
namespace {

constexpr char kJob[] = "mnist";
// A launch waits for its workers, trains for seconds, and may spend the outage limit, reattach window and silence
// limit.
constexpr int64_t kLongestLaunchNs = 200 * kSecond;

}  // namespace

Simulation::Simulation(uint32_t seed) : time_(seed), network_(&time_), coordinator_(&time_, kJob) {
  site_.network = &network_;
  site_.time = &time_;
  site_.coordinator = &coordinator_;
}

void Simulation::Tell(const std::string& line) {
  history_.push_back(absl::StrFormat("%9.6f s  %s", static_cast<double>(VirtualTime::NowNs()) / kSecond, line));
}

std::string Simulation::Run() {
  const int64_t launches = time_.Between(1, 3);
  for (launch_ = 1; launch_ <= launches && site_.violation.empty(); ++launch_) {
    Launch();
    const int64_t limit_ns = VirtualTime::NowNs() + kLongestLaunchNs;
    const auto is_over = [this] {
      return std::all_of(workers_.begin(), workers_.end(), [](const std::unique_ptr<SimWorker>& worker) {
        return worker->process().is_dead() || worker->process().is_stopped();
      });
    };
    while (site_.violation.empty() && !is_over() && time_.Step(limit_ns)) {
    }
    is_on_ = false;
    CheckEnd();
    // A stopped worker without a rank would take part in the next launch: end it, as a launcher does.
    for (const auto& worker : workers_) {
      if (worker->rank() >= 0 || worker->process().is_dead()) continue;
      has_ghost_ = true;
      worker->Kill();
    }
    // A new launch can be there as soon as a process starts.
    RunFor(LingersOn() ? 40 * kSecond : 100 * kMillisecond);
    for (auto& worker : workers_) earlier_.push_back(std::move(worker));
    workers_.clear();
  }
  // Messages still on their way and stopped workers must not do harm either.
  for (const auto& worker : earlier_) worker->process().Continue();
  RunFor(10 * kSecond);
  CheckCatalogue();
  return site_.violation;
}

void Simulation::RunFor(int64_t duration_ns) {
  bool is_over = false;
  time_.After(duration_ns, [&is_over] { is_over = true; });
  while (site_.violation.empty() && !is_over) time_.Step(VirtualTime::NowNs() + duration_ns);
}

void Simulation::Launch() {
  const int size = static_cast<int>(time_.OneIn(4) ? time_.Between(5, 12) : time_.Between(1, 4));
  const int64_t hosts = time_.Between(1, std::min(size, 6));
  if (!coordinator_.is_up()) coordinator_.Restart();
  disagrees_ = time_.OneIn(3);
  plan_ = TrainingPlan::Random(&time_, size, disagrees_);
  site_.bounds = SimBounds::Random(&time_);
  network_.Heal();
  worst_ = Fault::kNone;
  culprits_.clear();
  is_on_ = true;
  restarts_ = false;
  has_ghost_ = false;
  Tell(absl::StrCat("launch ", launch_, ": ", size, " workers on ", hosts, " hosts, ", plan_.steps.size(), " steps"));
  for (int index = 0; index < size; ++index) {
    workers_.push_back(
        std::make_unique<SimWorker>(&site_, &plan_, kJob, index, size, absl::StrCat("host", index * hosts / size)));
  }
  PlanFaults();
}

void Simulation::PlanFaults() {
  constexpr Fault kFaults[] = {Fault::kNone,    Fault::kCut,   Fault::kCut,       Fault::kRestart, Fault::kRestart,
                               Fault::kPause,   Fault::kPause, Fault::kPartition, Fault::kLongCut, Fault::kBreak,
                               Fault::kIsolate, Fault::kKill,  Fault::kKill,      Fault::kKill};
  for (int64_t faults = time_.Between(0, 2); faults > 0; --faults) {
    const Fault fault = kFaults[time_.Between(0, std::size(kFaults) - 1)];
    time_.After(time_.Between(0, 800 * kMillisecond), [this, fault, launch = launch_] {
      if (launch == launch_ && is_on_) Strike(fault);
    });
  }
  // Beside all these, as it must neither hide one of them nor be one.
  if (time_.OneIn(2)) time_.After(time_.Between(0, 800 * kMillisecond), [this] { StepClock(); });
}

SimWorker& Simulation::AnyWorker() { return *workers_[time_.Between(0, static_cast<int64_t>(workers_.size()) - 1)]; }

SimWorker& Simulation::AnyVictim() {
  const bool must_lead = time_.OneIn(2);
  for (int tries = 0; must_lead && tries < 20; ++tries) {
    if (SimWorker& worker = AnyWorker(); worker.leads()) return worker;
  }
  return AnyWorker();
}

bool Simulation::IsGone(const SimWorker& worker) const {
  return worker.outcome().has_value() || worker.process().is_dead();
}

void Simulation::Strike(Fault fault) {
  if (workers_.empty()) return;
  SimWorker& worker = AnyVictim();
  const bool is_gone = IsGone(worker);
  if (fault == Fault::kRestart && coordinator_.is_up()) {
    Restart();
  } else if (fault == Fault::kPause && !is_gone) {
    Pause(worker);
  } else if (fault == Fault::kCut) {
    // Shorter than what a connection bears.
    if (!Cut(worker, AnyWorker(), time_.Between(0, 8 * kSecond))) return;
  } else if (fault == Fault::kLongCut) {
    SimWorker& other = AnyWorker();
    const int64_t for_ns = time_.OneIn(2) ? time_.Between(8 * kSecond, 20 * kSecond) : 1000 * kSecond;
    if (!Cut(worker, other, for_ns)) return;
    BlameHost(worker.process().host());
    BlameHost(other.process().host());
  } else if (fault == Fault::kBreak) {
    if (!Break()) return;
  } else if (fault == Fault::kIsolate && !is_gone) {
    Isolate(worker, time_.OneIn(2) ? time_.Between(0, 4 * kSecond) : time_.Between(0, 30 * kSecond));
  } else if (fault == Fault::kPartition && !is_gone && worker.conversation() != nullptr) {
    Partition(worker, time_.Between(0, 8 * kSecond));
  } else if (fault == Fault::kKill && !is_gone) {
    Kill(worker);
  } else {
    return;
  }
  worst_ = std::max(worst_, fault);
}

void Simulation::Restart() {
  const int64_t away_ns = time_.Between(0, 5 * kSecond);
  Tell(absl::StrCat("the coordinator crashes, for ", away_ns / kMillisecond, " ms"));
  coordinator_.Crash();
  restarts_ = true;
  time_.After(away_ns, [this] {
    if (!coordinator_.is_up()) coordinator_.Restart();
  });
}

void Simulation::StepClock() {
  const absl::Duration step = time_.ClockStep();
  Tell(absl::StrCat("the coordinator's wall clock is set by ", absl::FormatDuration(step)));
  coordinator_.StepWallClock(step);
}

void Simulation::Pause(SimWorker& worker) {
  const int64_t for_ns = time_.OneIn(2) ? time_.Between(0, kSecond) : time_.Between(0, 12 * kSecond);
  Tell(absl::StrCat("stopped for ", for_ns / kMillisecond, " ms: ", worker.Describe()));
  Blame(worker);
  worker.process().Stop();
  time_.After(for_ns, [process = &worker.process()] { process->Continue(); });
}

void Simulation::Partition(SimWorker& worker, int64_t for_ns) {
  Tell(absl::StrCat("cut from the coordinator for ", for_ns / kMillisecond, " ms: ", worker.Describe()));
  Blame(worker);
  worker.conversation()->Partition(for_ns);
}

bool Simulation::Cut(const SimWorker& worker, const SimWorker& other, int64_t for_ns) {
  const std::string &a = worker.process().host(), &b = other.process().host();
  if (a == b || network_.IsCut(a, b)) return false;
  Tell(absl::StrCat(a, " and ", b, " are cut from each other for ", for_ns / kMillisecond, " ms"));
  network_.Cut(a, b, for_ns);
  return true;
}

bool Simulation::Break() {
  const std::vector<int64_t> pids = network_.BreakAny();
  if (pids.empty()) return false;
  Tell(absl::StrCat("the connection between pid ", pids[0], " and pid ", pids[1], " breaks"));
  culprits_.insert(pids.begin(), pids.end());
  return true;
}

void Simulation::Isolate(const SimWorker& worker, int64_t for_ns) {
  const std::string& host = worker.process().host();
  Tell(absl::StrCat(host, " is cut from all others for ", for_ns / kMillisecond, " ms"));
  for (const auto& other : workers_) {
    if (other->process().host() != host) {
      network_.Cut(host, other->process().host(), for_ns);
      Blame(*other);
    } else if (!IsGone(*other) && other->conversation() != nullptr) {
      Partition(*other, for_ns);
    }
  }
  BlameHost(host);
}

void Simulation::Kill(SimWorker& worker) {
  Tell(absl::StrCat("killed: ", worker.Describe()));
  has_ghost_ = has_ghost_ || worker.rank() < 0;
  Blame(worker);
  worker.Kill();
}

void Simulation::Blame(const SimWorker& worker) { culprits_.insert(worker.process().pid()); }

void Simulation::BlameHost(const std::string& host) {
  for (const auto& worker : workers_) {
    if (worker->process().host() == host) Blame(*worker);
  }
}

bool Simulation::NamesCulprit(const std::string& sentence) const {
  static const std::regex* const name = new std::regex("(?:pid|worker) ([0-9]+)");
  std::smatch found;
  int64_t pid = 0;
  return std::regex_search(sentence, found, *name) && absl::SimpleAtoi(found[1].str(), &pid) &&
         culprits_.count(pid) > 0;
}

void Simulation::CheckEnd() {
  // A worker that gives up meeting its peers ends without having stated why. See docs/decisions/0004-simulator.md.
  for (const auto& worker : workers_) {
    if (worker->outcome().has_value() && !worker->has_met()) Blame(*worker);
  }
  for (const auto& worker : workers_) {
    Tell(worker->Describe());
    CheckOutcome(*worker);
  }
}

// After a restart of the coordinator a job runs until its workers have had time to come back; a worker that has joined
// and is killed before its stream is open counts until it should be; a stopped worker's launch is not over; and if some
// have left and one is killed, a worker that joins before that is known passes for one of the same program.
bool Simulation::LingersOn() const {
  bool is_alive = false;
  for (const auto& worker : workers_) is_alive = is_alive || !worker->process().is_dead();
  return restarts_ || has_ghost_ || is_alive || (HasLeft() && worst_ == Fault::kKill);
}

bool Simulation::HasLeft() const {
  for (const auto& worker : workers_) {
    if (worker->outcome().has_value() && worker->outcome()->ok()) return true;
  }
  return false;
}

void Simulation::CheckOutcome(const SimWorker& worker) {
  const std::optional<absl::Status>& outcome = worker.outcome();
  if (!outcome.has_value()) {
    if (worker.process().is_dead() || worker.process().is_stopped()) return;
    return site_.Violate(absl::StrCat("hangs: ", worker.Describe()));
  }
  if (outcome->ok()) return;
  // A restarted coordinator gives the launch before the time to come back.
  if (absl::IsAlreadyExists(*outcome) && launch_ > 1 && restarts_) return;
  if (worst_ <= Fault::kRestart) {
    return site_.Violate(absl::StrCat("nothing worse than a restart of the coordinator happened: ", worker.Describe()));
  }
  // Before the epoch has formed, the waiting workers learn how many came.
  if (worker.rank() < 0) return;
  if (absl::IsUnavailable(*outcome)) return;
  if (!absl::IsAborted(*outcome) && worker.has_met()) {
    return site_.Violate(absl::StrCat("ends with another code than ABORTED: ", worker.Describe()));
  }
  // Without a coordinator's word, hosts whose leader died end by what each of their ranks sees.
  if (restarts_ && worst_ >= Fault::kBreak) return;
  // So they do where some have left in order: the coordinator hears nothing of connections to these.
  if (HasLeft() && worst_ >= Fault::kLongCut) return;
  // A worker that was cut off when a disagreement was told, and comes back when its peers are done, finds that they
  // left.
  if (HasLeft() && absl::StrContains(outcome->message(), "has left the job")) return;
  // A worker that is itself cut off from the coordinator names the peer that it lost, and itself.
  const int64_t own_pid = worker.process().pid();
  const bool names_itself = absl::StrContains(outcome->message(), absl::StrCat("(pid ", own_pid, ")"));
  if (culprits_.count(own_pid) > 0 && names_itself) return;
  if (!NamesCulprit(std::string(outcome->message()))) {
    site_.Violate(absl::StrCat("names none to whom something was done: ", worker.Describe()));
  }
}

void Simulation::CheckCatalogue() {
  std::set<int64_t> steps;
  std::set<uint64_t> tokens;
  const v1::ListCheckpointsResponse catalogue = coordinator_.Catalogue();
  for (const v1::Checkpoint& checkpoint : catalogue.checkpoints()) {
    if (!steps.insert(checkpoint.step()).second)
      site_.Violate(absl::StrCat("step ", checkpoint.step(), " has two checkpoints"));
    if (!tokens.insert(checkpoint.token()).second)
      site_.Violate(absl::StrCat("token ", checkpoint.token(), " was given twice"));
  }
}

}  // namespace farandole
