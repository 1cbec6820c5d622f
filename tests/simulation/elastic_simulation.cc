#include "tests/simulation/elastic_simulation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace farandole {
namespace {

constexpr char kJob[] = "elastic";
constexpr size_t kMostNamed = 8;

}  // namespace

ElasticSimulation::Scale ElasticSimulation::Small(uint32_t seed) {
  VirtualTime chances(seed);
  Scale scale;
  scale.workers = static_cast<int>(chances.Between(2, 12));
  scale.hosts = static_cast<int>(chances.Between(1, std::min(scale.workers, 5)));
  scale.faults = static_cast<int>(chances.Between(1, 8));
  scale.duration_ns = scale.faults * 3 * kSecond;
  scale.settle_ns = 120 * kSecond;
  return scale;
}

ElasticSimulation::ElasticSimulation(uint32_t seed, Scale scale)
    : scale_(scale), time_(seed), network_(&time_), coordinator_(&time_, kJob), has_launcher_(time_.OneIn(2)) {
  site_.time = &time_;
  site_.coordinator = &coordinator_;
  site_.network = &network_;
  site_.job = kJob;
  site_.first = scale_.workers;
  site_.least = static_cast<int>(time_.Between(1, std::max(1, scale_.workers / 2)));
  site_.most = scale_.workers + static_cast<int>(time_.Between(0, 2));
}

void ElasticSimulation::Tell(const std::string& line) {
  history_.push_back(absl::StrFormat("%9.6f s  %s", static_cast<double>(VirtualTime::NowNs()) / kSecond, line));
}

void ElasticSimulation::Start(const std::string& host) {
  processes_.push_back(std::make_unique<ElasticProcess>(&site_, static_cast<int64_t>(processes_.size()) + 1, host));
}

std::string ElasticSimulation::Run() {
  Tell(absl::StrCat(scale_.workers, " workers (", site_.least, " to ", site_.most, ") on ", scale_.hosts, " hosts",
                    has_launcher_ ? "" : ", no launcher"));
  for (int i = 0; i < scale_.workers; ++i) Start(absl::StrCat("host", i * scale_.hosts / scale_.workers));
  for (int i = 0; i < scale_.faults; ++i) {
    time_.After(time_.Between(200 * kMillisecond, scale_.duration_ns), [this] { Strike(); });
    // Beside all these, as it must neither hide one of them nor be one.
    if (time_.OneIn(4)) time_.After(time_.Between(0, scale_.duration_ns), [this] { StepClock(); });
  }
  while (site_.violation.empty() && time_.Step(scale_.duration_ns)) {
  }
  is_calm_ = true;
  network_.Heal();
  if (!coordinator_.is_up()) coordinator_.Restart();
  for (const auto& process : processes_) process->process().Continue();
  Tell("no more misfortunes");
  const int64_t limit_ns = VirtualTime::NowNs() + scale_.settle_ns;
  bool is_settled = false;
  LookForSettled(&is_settled);
  while (site_.violation.empty() && !is_settled && time_.Step(limit_ns)) {
  }
  Tell(absl::StrCat(epochs(), " epochs, ", steps(), " steps"));
  if (site_.violation.empty() && !is_settled) site_.Violate(WhoHangs());
  return site_.violation;
}

void ElasticSimulation::LookForSettled(bool* is_settled) {
  *is_settled = IsSettled();
  time_.After(kSecond, [this, is_settled] { LookForSettled(is_settled); });
}

int64_t ElasticSimulation::steps() const {
  int64_t steps = 0;
  for (const auto& [number, epoch] : site_.epochs) steps += epoch->steps();
  return steps;
}

ElasticProcess* ElasticSimulation::AnyProcess() {
  for (int tries = 0; tries < 50; ++tries) {
    ElasticProcess* const process = processes_[time_.Between(0, static_cast<int64_t>(processes_.size()) - 1)].get();
    if (!process->process().is_dead()) return process;
  }
  return nullptr;
}

void ElasticSimulation::Strike() {
  ElasticProcess* const process = AnyProcess();
  if (process == nullptr) return;
  switch (time_.Between(0, 11)) {
    case 0:
    case 1:
    case 2:
      return Kill(process);
    case 3:
      return Stop(process);
    case 4:
      return LoseHost();
    case 5:
    case 6:
      return Cut();
    case 7:
      return CutFromCoordinator(AnyHost(), time_.Between(0, 8 * kSecond));
    case 8:
      return Isolate();
    case 9:
      return Crash();
    case 10:
      return Drain();
    default:
      Tell("a newcomer");
      return Start(AnyHost());
  }
}

void ElasticSimulation::Kill(ElasticProcess* process) {
  Tell(absl::StrCat("killed: ", process->Describe()));
  process->Kill();
  Replace(*process);
}

void ElasticSimulation::Replace(const ElasticProcess& process) {
  const std::string host = process.process().host();
  const int64_t number = process.number();
  time_.After(time_.Between(kMillisecond, 3 * kSecond), [this, host] { Start(host); });
  if (!has_launcher_ || !coordinator_.is_up()) return;
  v1::ReportExitRequest report;
  report.set_job(kJob);
  report.set_launch_index(static_cast<uint32_t>(number - 1));
  report.set_failed(true);
  report.set_end("SIGKILL");
  report.set_host(host);
  const auto launcher = std::make_shared<SimProcess>(&time_, -1, kCoordinatorHost);
  coordinator_.Call(
      launcher,
      [report](CallId call) {
        return Event(ExitReported{call, report});
      },
      [](const Reply&) {});
}

void ElasticSimulation::LoseHost() {
  const std::string host = AnyHost();
  Tell(absl::StrCat(host, " is lost"));
  // The coordinator notices it only by silence.
  CutFromCoordinator(host, 1000 * kSecond);
  for (size_t i = 0; i < processes_.size(); ++i) {
    ElasticProcess& process = *processes_[i];
    if (process.process().host() != host || process.process().is_dead()) continue;
    process.Kill();
    time_.After(time_.Between(kSecond, 6 * kSecond), [this, host = AnyHost()] { Start(host); });
  }
}

void ElasticSimulation::Stop(ElasticProcess* process) {
  const int64_t for_ns = time_.Between(0, 8 * kSecond);
  Tell(absl::StrCat("stopped for ", for_ns / kMillisecond, " ms: ", process->Describe()));
  process->Stop();
  time_.After(for_ns, [process] { process->process().Continue(); });
}

void ElasticSimulation::Cut() {
  const std::string one = AnyHost(), other = AnyHost();
  if (one == other) return;
  const int64_t for_ns = time_.OneIn(2) ? time_.Between(0, 9 * kSecond) : time_.Between(9 * kSecond, 40 * kSecond);
  Tell(absl::StrCat(one, " and ", other, " are cut from each other for ", for_ns / kMillisecond, " ms"));
  network_.Cut(one, other, for_ns);
}

void ElasticSimulation::CutFromCoordinator(const std::string& host, int64_t for_ns) {
  Tell(absl::StrCat(host, " is cut from the coordinator for ", for_ns / kMillisecond, " ms"));
  network_.Cut(host, kCoordinatorHost, for_ns);
  for (const auto& process : processes_) {
    if (process->process().host() == host) process->LoseStream();
  }
}

void ElasticSimulation::Isolate() {
  const std::string host = AnyHost();
  const int64_t for_ns = time_.Between(0, 20 * kSecond);
  for (int other = 0; other < scale_.hosts; ++other) {
    if (absl::StrCat("host", other) != host) network_.Cut(host, absl::StrCat("host", other), for_ns);
  }
  CutFromCoordinator(host, for_ns);
}

void ElasticSimulation::Crash() {
  if (!coordinator_.is_up()) return;
  const int64_t away_ns = time_.Between(0, 5 * kSecond);
  Tell(absl::StrCat("the coordinator crashes, for ", away_ns / kMillisecond, " ms"));
  coordinator_.Crash();
  time_.After(away_ns, [this] {
    if (!coordinator_.is_up()) coordinator_.Restart();
  });
}

void ElasticSimulation::StepClock() {
  const absl::Duration step = time_.ClockStep();
  Tell(absl::StrCat("the coordinator's wall clock is set by ", absl::FormatDuration(step)));
  coordinator_.StepWallClock(step);
}

void ElasticSimulation::Drain() {
  if (!coordinator_.is_up()) return;
  DrainRequested drain;
  if (time_.OneIn(3)) {
    drain.hostname = AnyHost();
  } else {
    drain.rank = static_cast<uint32_t>(time_.Between(0, scale_.workers - 1));
  }
  Tell(absl::StrCat("drain of ", drain.rank.has_value() ? absl::StrCat("rank ", *drain.rank) : drain.hostname));
  const auto people = std::make_shared<SimProcess>(&time_, -1, kCoordinatorHost);
  coordinator_.Call(
      people,
      [drain](CallId call) {
        DrainRequested event = drain;
        event.call = call;
        return Event(event);
      },
      [](const Reply&) {});
}

bool ElasticSimulation::IsSettled() const {
  uint64_t last = 0;
  int living = 0, members = 0;
  for (const auto& process : processes_) last = std::max(last, process->process().is_dead() ? 0 : process->epoch());
  for (const auto& process : processes_) {
    living += !process->process().is_dead();
    members += !process->process().is_dead() && process->IsMember() && process->epoch() == last;
  }
  // Too few are left, as they were drained: they wait for more.
  if (living < site_.least) return true;
  return last > 0 && members == std::min(living, site_.most) && site_.epochs.at(last)->steps() >= 3;
}

std::string ElasticSimulation::WhoHangs() const {
  std::string who = absl::StrCat("not settled; the job: ", coordinator_.summary().reason());
  size_t named = 0;
  for (const auto& process : processes_) {
    if (process->process().is_dead() || ++named > kMostNamed) continue;
    absl::StrAppend(&who, "; ", process->Describe());
  }
  return who;
}

}  // namespace farandole
