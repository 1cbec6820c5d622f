#include "deploy/launcher/launch.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/policy/failure_report.h"
#include "deploy/launcher/process/descendants.h"
#include "deploy/launcher/process/private_file.h"

namespace farandole::launcher {
namespace {

// How long a run that was asked to stop waits for a reader that takes no output.
constexpr absl::Duration kFlushPatience = absl::Seconds(2);
// When the last worker of an elastic launch has ended: how long the coordinator's words about it are waited for.
constexpr absl::Duration kAnswerPatience = absl::Seconds(5);
constexpr int kMostStarts = 65536;  // as agent_messages.cc

std::string NotReady(absl::Duration limit) { return absl::StrCat("was not ready within ", FormatSeconds(limit)); }

}  // namespace

int Launch::ExitCodeOf(const absl::Status& status) {
  if (absl::IsNotFound(status)) return 127;
  return absl::IsPermissionDenied(status) ? 126 : 1;
}

Launch::Launch(LaunchPlan plan)
    : plan_(std::move(plan)),
      console_({STDOUT_FILENO, STDERR_FILENO, plan_.workers, plan_.progress, plan_.is_terminal_dumb, plan_.program},
               &loop_, [this] { OnConsoleDrained(); }),
      outputs_(&console_),
      policy_(is_elastic() ? StopPolicy(plan_.limits) : StopPolicy(plan_.workers, plan_.limits)),
      input_(&loop_, [this] { outputs_.OnEnter(0); }),
      worker_hosts_(plan_.ssh, plan_.order, &loop_, this),
      report_(plan_, worker_hosts_, outputs_, &policy_, &console_),
      vacancies_(
          plan_.link, &loop_, [this] { return Now(); },
          [this](const JobLink::Vacancy& vacancy) { OnVacancyAnswer(vacancy); }) {
  worker_hosts_.here()->SetCommand(plan_.command);
  worker_hosts_.SetTerminals(console_.Terminals());
  if (plan_.prefix_time) console_.PrefixTime();
}

Launch::~Launch() = default;

absl::StatusOr<int> Launch::Run() {
  absl::Status status = OpenEventSources();
  if (!status.ok()) return status;
  status = is_elastic() ? RunElastic() : RunFixed();
  status.Update(FinishAll());
  if (!failure_.ok()) return failure_;
  if (!status.ok()) return status;
  if (policy_.first_failed() >= 0) {
    report_.FindCause();
    report_.SayFailure(is_full_);
  }
  if (policy_.exit_code() != 0) report_.EndUnformed();
  status = FlushConsole();
  if (!status.ok()) return status;
  return policy_.exit_code();
}

absl::Status Launch::OpenEventSources() {
  absl::StatusOr<std::unique_ptr<AlarmClock>> clock = AlarmClock::Make(&loop_, [this] { OnAlarm(); });
  if (!clock.ok()) return clock.status();
  clock_ = *std::move(clock);
  absl::StatusOr<std::unique_ptr<ChildWatch>> children = ChildWatch::Make(&loop_, [this](pid_t pid, WorkerEnd end) {
    if (recruitment_ != nullptr && recruitment_->OnChildEnded(pid, end)) return;
    worker_hosts_.OnChildEnded(pid, end);
  });
  if (!children.ok()) return children.status();
  children_ = *std::move(children);
  if (absl::Status opened = outputs_.Open(&loop_); !opened.ok()) return opened;
  // A reader of our output that ends must not end us; the workers get the default back.
  signal(SIGPIPE, SIG_IGN);
  loop_.Watch(plan_.guard.signals_fd, EPOLLIN, [this](uint32_t) { OnGuard(); });
  return absl::OkStatus();
}

absl::Status Launch::RunFixed() {
  absl::Status status = MakePlaces();
  if (!status.ok()) return status;
  status = ReachAll();
  if (!status.ok() || policy_.stop_signal() != 0 || gave_up_) return status;
  status = StartAll();
  if (!status.ok()) Apply(policy_.Abandoned());
  status.Update(RunLoop([this] { return policy_.all_ended(); }));
  return status;
}

absl::Status Launch::MakePlaces() {
  std::vector<HostShare> shares = plan_.shares;
  if (shares.empty()) shares.push_back({OwnHostName(), 0, plan_.workers, true});
  for (const HostShare& share : shares) {
    WorkerHost* const worker_host = worker_hosts_.Add({share.host, share.count, share.is_here});
    for (int i = 0; i < share.count; ++i) {
      staff_[worker_host].push_back(share.first + i);
      if (absl::Status added = AddWorker(worker_host->host()); !added.ok()) return added;
    }
  }
  return absl::OkStatus();
}

absl::Status Launch::AddWorker(const std::string& host) {
  report_.workers().emplace_back().host = host;
  return outputs_.Add(plan_.output_directory, is_elastic() ? plan_.elastic->staff.most : plan_.workers);
}

absl::Status Launch::ReachAll() {
  const std::vector<WorkerHost*> worker_hosts = worker_hosts_.all();
  awaited_ = static_cast<int>(worker_hosts.size());
  clock_->Set(Now() + plan_.reach_limit);
  for (WorkerHost* worker_host : worker_hosts) worker_host->Prepare();
  const absl::Status status = RunLoop([this] { return awaited_ == 0 || policy_.stop_signal() != 0 || gave_up_; });
  if (!status.ok()) return status;
  if (plan_.verbose && failure_.ok() && worker_hosts_.has_others()) {
    console_.Say(absl::StrCat("all hosts are ready after ", FormatSeconds(Now())));
  }
  return failure_;
}

absl::Status Launch::StartAll() {
  stage_ = kWorking;
  SetAlarm();
  if (absl::Status opened = OpenInput(worker_hosts_.here(), staff_[worker_hosts_.here()]); !opened.ok()) return opened;
  for (WorkerHost* worker_host : worker_hosts_.all()) worker_host->Start(staff_[worker_host]);
  input_.CloseWorkerEnd();
  return failure_;
}

absl::Status Launch::OpenInput(WorkerHost* worker_host, const std::vector<int>& workers) {
  if (worker_host != worker_hosts_.here() || workers.empty() || workers[0] != 0) return absl::OkStatus();
  const absl::StatusOr<int> input = input_.Open();
  if (!input.ok()) return input.status();
  worker_hosts_.here()->SetInput(*input);
  return absl::OkStatus();
}

absl::Status Launch::RunElastic() {
  stage_ = kWorking;
  worker_hosts_.here()->Prepare();
  RecruitmentDelegate* const delegate = this;
  recruitment_ = std::make_unique<Recruitment>(*plan_.elastic, &loop_, delegate);
  absl::Status status = recruitment_->Begin();
  if (status.ok()) status = RunLoop([this] { return IsElasticOver(); });
  if (!status.ok()) Apply(policy_.Abandoned());
  return status;
}

bool Launch::IsElasticOver() {
  recruitment_->Continue();
  worker_hosts_.RemoveReleased();
  const bool is_deserted = policy_.all_ended() && recruitment_->is_deserted();
  if (is_deserted) answers_until_ = std::min(answers_until_, Now() + kAnswerPatience);
  SetAlarm();
  if (policy_.all_ended() && (policy_.stop_signal() != 0 || gave_up_ || !failure_.ok())) return true;
  return is_deserted && (recruitment_->is_answered() || Now() >= answers_until_);
}

void Launch::SetAlarm() {
  absl::Duration at = std::min({policy_.deadline(), answers_until_, vacancies_.deadline()});
  if (recruitment_ != nullptr) at = std::min(at, recruitment_->deadline());
  for (const auto& [host, limit] : reach_until_) at = std::min(at, limit);
  clock_->Set(at);
}

void Launch::Engage(const HostSlots& host) {
  WorkerHost* worker_host = worker_hosts_.Find(host.host);
  const bool is_new = worker_host == nullptr;
  if (is_new)
    worker_host = worker_hosts_.Add({host.host, std::min(host.slots, plan_.elastic->staff.most), host.is_here});
  if (worker_hosts_.is_ready(worker_host)) {
    StartAt(host.host, worker_host);
  } else if (is_new) {
    reach_until_[host.host] = Now() + plan_.reach_limit;
    worker_host->Prepare();
  }
}

void Launch::StartAt(const std::string& host, WorkerHost* worker_host) {
  std::vector<int> numbers;
  for (int count = recruitment_->starting_on(host); count > 0; --count) {
    if (policy_.workers() == kMostStarts) {
      console_.Say(absl::StrCat(kMostStarts, " workers were started for this job, and no more can be"));
      recruitment_->Close();
      break;
    }
    const int number = policy_.Add();
    if (const absl::Status added = AddWorker(host); !added.ok()) console_.Say(added.message());
    report_.workers()[number].hostname = worker_host->hostname();
    recruitment_->OnStarted(host, number);
    numbers.push_back(number);
  }
  if (const absl::Status opened = OpenInput(worker_host, numbers); !opened.ok()) console_.Say(opened.message());
  worker_host->Start(numbers);
  input_.CloseWorkerEnd();
}

void Launch::GiveUpUnreached() {
  // Worker hosts that are given up are released.
  for (const auto& [host, limit] : std::map(reach_until_)) {
    if (limit <= Now()) worker_hosts_.Find(host)->GiveUp(NotReady(plan_.reach_limit));
  }
}

void Launch::SignalWorker(int worker, int signal) {
  WorkerHost* const worker_host = worker_hosts_.Find(report_.workers()[worker].host);
  if (worker_host != nullptr) worker_host->SignalOne(worker, signal);
}

void Launch::Release(const std::string& host) {
  reach_until_.erase(host);
  worker_hosts_.Release(host);
}

void Launch::OnJobOver(int worker, const JobLink::ExitAnswer& answer) {
  const bool has_failed = *answer.has_job_failed;
  if (has_failed && policy_.stop_signal() == 0 && !policy_.is_job_over()) {
    console_.Say(absl::StrCat("the job has failed: ", answer.reason,
                              policy_.all_ended() ? "" : "; workers that still run have a while to end by themselves"));
  }
  if (answer.is_outlived && !has_failed) policy_.Outlive(worker);
  policy_.JobOver(worker, has_failed, Now());
  // Resume stopped workers so that they see the job end.
  if (!has_failed) SignalWorkers(SIGCONT, true);
}

void Launch::OnHopeless(const absl::Status& status) {
  failure_.Update(status);
  recruitment_->Close();
}

void Launch::OnReady(WorkerHost* worker_host) {
  --awaited_;
  worker_hosts_.SetReady(worker_host);
  const std::string host = worker_hosts_.HostOf(worker_host);
  if (!is_elastic() || host.empty()) return;
  reach_until_.erase(host);
  StartAt(host, worker_host);
}

void Launch::OnFailed(WorkerHost* worker_host, const absl::Status& status) {
  const bool is_lost = absl::IsUnavailable(status) || absl::IsInternal(status);
  if (stage_ == kReaching) {
    --awaited_;
    ++unusable_;
    console_.Say(status.message());
    failure_ = absl::Status(failure_.ok() ? status.code() : failure_.code(),
                            absl::StrCat("nothing was started, because of ",
                                         unusable_ == 1 ? "that host" : absl::StrCat("those ", unusable_, " hosts")));
  } else if (is_elastic() && worker_host != worker_hosts_.here() && (is_lost || !worker_hosts_.is_ready(worker_host))) {
    console_.Say(status.message());
    const std::string host = worker_hosts_.HostOf(worker_host);
    Release(host);
    recruitment_->OnUnusable(host);
  } else if (is_lost || is_elastic()) {
    // A host that is lost is a failure of its workers.
    console_.Say(status.message());
  } else {
    failure_.Update(status);
    Apply(policy_.Abandoned());
  }
}

void Launch::OnStarted(int worker, pid_t pid) {
  report_.workers()[worker].pid = pid;
  // One that was added while others run is news; those of the start are not.
  const bool is_news = is_elastic() && worker >= plan_.elastic->staff.first;
  if (!plan_.verbose && !is_news) return;
  const std::string where = report_.NamesHosts() ? absl::StrCat(" on host ", report_.workers()[worker].host) : "";
  console_.Say(absl::StrCat("worker ", worker, " is started", where, ", pid ", pid));
}

void Launch::OnOutput(int worker, Console::Stream stream, absl::string_view bytes) {
  outputs_.Push(worker, stream, bytes);
  if (is_full_ || gave_up_ || !console_.IsFull()) return;
  is_full_ = true;
  worker_hosts_.HoldOutput(true);
}

void Launch::OnConsoleDrained() {
  if (!is_full_) return;
  is_full_ = false;
  worker_hosts_.HoldOutput(false);
}

void Launch::OnEnded(int worker, WorkerEnd end) {
  if (worker == 0) input_.Close();
  if (is_elastic()) {
    const bool is_news = end.failed() && policy_.stop_signal() == 0 && !policy_.is_job_over();
    TakeEnd(worker, end);
    if (is_news) {
      report_.SayLoss(worker, is_full_);
    } else if (plan_.verbose) {
      report_.SayEnd(worker);
    }
    recruitment_->OnEnded(worker, end, report_.workers()[worker].hostname);
    return;
  }
  const bool had_failed = policy_.first_failed() >= 0;
  TakeEnd(worker, end);
  if (plan_.verbose || (policy_.first_failed() == worker && !had_failed && !policy_.all_ended()))
    report_.SayEnd(worker);
}

void Launch::OnGuard() {
  unsigned char signal = 0;
  ssize_t count;
  while ((count = read(plan_.guard.signals_fd, &signal, 1)) == 1) OnSignal(signal);
  if (count < 0) return;
  loop_.Unwatch(plan_.guard.signals_fd);
  console_.Say(absl::StrCat("the process that was started as '", plan_.program, "' (pid ", plan_.guard.pid,
                            ") is gone; its workers are killed"));
  if (is_elastic() && plan_.elastic->outlives_launcher) {
    // Not by the agents, which are to find that we are gone as well.
    KillDescendants();
    RemovePrivateDirectory(plan_.elastic->private_directory);
    _exit(128 + SIGKILL);
  }
  gave_up_ = stage_ == kFlushing || stage_ == kReaching;
  Apply(policy_.Abandoned());
}

void Launch::OnSignal(int signal) {
  switch (signal) {
    case SIGTSTP:
      PauseEverything();
      return;
    case SIGWINCH:
      worker_hosts_.SetTerminals(console_.Terminals());
      return;
    case SIGCONT:
      SignalWorkers(SIGCONT, true);
      input_.Resume();
      return;
    case SIGUSR1:
    case SIGUSR2:
      // Not to the group: the default action would kill data loaders that know nothing of it.
      SignalWorkers(signal, false);
      return;
    default:
      break;
  }
  const int decided = policy_.StopRequested(signal, Now());
  if (decided != 0 && recruitment_ != nullptr) recruitment_->Close();
  if (decided != 0 && (stage_ == kFlushing || (stage_ == kFinishing && is_full_))) GiveUpConsole();
  if (stage_ == kReaching) return;
  if (decided == SIGKILL) {
    console_.Say(absl::StrCat("got ", SignalName(signal), " again: the workers are killed"));
  } else if (decided != 0 && !policy_.all_ended()) {
    console_.Say(
        absl::StrCat("got ", SignalName(signal), ", which is passed on to the workers; SIGINT twice kills them"));
  }
  Apply(decided);
}

void Launch::OnAlarm() {
  switch (stage_) {
    case kReaching:
      for (WorkerHost* worker_host : worker_hosts_.all()) worker_host->GiveUp(NotReady(plan_.reach_limit));
      return;
    case kWorking: {
      const int signal = policy_.DeadlineReached(Now());
      if (signal != 0) console_.Say(absl::StrCat("workers that still run get ", SignalName(signal)));
      Apply(signal);
      GiveUpUnreached();
      AskForVacancy();
      return;
    }
    case kFinishing:
    case kFlushing:
      GiveUpConsole();
  }
}

void Launch::GiveUpConsole() {
  gave_up_ = true;
  OnConsoleDrained();
}

void Launch::Apply(int signal) {
  console_.SetFirst(policy_.first_running());
  if (stage_ == kFinishing && signal == SIGKILL) SignalWorkers(SIGKILL, true);
  if (stage_ != kWorking) return;
  if (signal != 0) SignalWorkers(signal, true);
  SetAlarm();
}

void Launch::PauseEverything() {
  // Not SIGTSTP: a program may ignore it, and its peers would then wait in vain.
  SignalWorkers(SIGSTOP, true);
  console_.Leave();
  raise(SIGSTOP);
  SignalWorkers(SIGCONT, true);
  input_.Resume();
}

absl::Status Launch::RunLoop(const std::function<bool()>& is_over) {
  while (!is_over()) {
    const absl::Status status = loop_.RunOnce();
    if (!status.ok()) {
      return absl::InternalError(absl::StrCat("the launcher cannot wait for its workers: ", status.message()));
    }
    outputs_.Continue();
    console_.Refresh();
  }
  return absl::OkStatus();
}

absl::Status Launch::FinishAll() {
  stage_ = kFinishing;
  gave_up_ = false;
  // Only a full console can make us wait for long, and a run that was asked to stop does not wait for its reader.
  const bool is_stopped = policy_.stop_signal() != 0 || !failure_.ok();
  bool is_limited = false;
  absl::Status status;
  clock_->Set(absl::InfiniteDuration());
  for (const bool elsewhere : {true, false}) {
    const auto is_over = [&] {
      if (is_full_ && is_stopped && !is_limited) {
        is_limited = true;
        clock_->Set(Now() + kFlushPatience);
      }
      return worker_hosts_.AreFinished(elsewhere);
    };
    worker_hosts_.Finish(elsewhere);
    status.Update(RunLoop(is_over));
  }
  outputs_.FinishAll();
  console_.Refresh();
  return status;
}

absl::Status Launch::FlushConsole() {
  stage_ = kFlushing;
  gave_up_ = false;
  clock_->Set(policy_.stop_signal() == 0 ? absl::InfiniteDuration() : Now() + kFlushPatience);
  const absl::Status status = RunLoop([this] { return gave_up_ || console_.HoldsNothing(); });
  console_.Discard();
  return status;
}

}  // namespace farandole::launcher
