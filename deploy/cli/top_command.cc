// `farandole top`: jobs, or one job's ranks, as they are now.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "deploy/cli/text/top_text.h"
#include "deploy/launcher/environment/options.h"
#include "nlohmann/json.hpp"
#include "web/job_json.h"

namespace farandole {
namespace {

constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[?25l";
constexpr char kLeaveScreen[] = "\x1b[?25h\x1b[?1049l";

struct TopOptions {
  CoordinatorSource source;
  std::string job;
  std::string tenant;
  double interval_s = 1;
  bool once = false;
  bool json = false;
};

// The view at one moment.
struct Sight {
  std::vector<v1::JobSummary> jobs;
  v1::GetJobResponse job;  // where one is meant
};

int Report(const absl::Status& status) {
  std::cerr << "farandole top: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

absl::StatusOr<Sight> Look(const TopOptions& options) {
  absl::StatusOr<Survey> survey = AskAll(options.source, absl::Now());
  if (!survey.ok()) return survey.status();
  Sight sight;
  if (options.job.empty()) {
    for (const KnownJob& known : survey->jobs) {
      if (options.tenant.empty() || known.summary.tenant() == options.tenant) sight.jobs.push_back(known.summary);
    }
    if (sight.jobs.empty() && !survey->problems.empty()) return survey->problems[0];
    return sight;
  }
  const absl::StatusOr<KnownJob> known = FindJob(*survey, options.source, options.tenant, options.job);
  if (!known.ok()) return known.status();
  if (known->session == nullptr) {
    sight.job = known->kept.job;
    return sight;
  }
  absl::StatusOr<v1::GetJobResponse> job = known->session->GetJob(known->summary.tenant(), options.job);
  if (!job.ok()) return job.status();
  sight.job = *std::move(job);
  return sight;
}

std::string Show(const TopOptions& options, const Sight& sight, size_t lines, size_t columns) {
  const absl::Time now = absl::Now();
  return options.job.empty() ? ShowTopJobs(sight.jobs, now, lines) : ShowTopJob(sight.job, now, lines, columns);
}

std::string ShowAsJson(const TopOptions& options, const Sight& sight) {
  if (!options.job.empty()) return ShowJson(JobJson(sight.job), 2);
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const v1::JobSummary& job : sight.jobs) jobs.push_back(SummaryJson(job));
  return ShowJson(jobs, 2);
}

volatile std::sig_atomic_t is_interrupted = 0;
volatile std::sig_atomic_t is_suspended = 0;

// The terminal's second screen, on which keys arrive at once. Gone with the object.
class Screen {
 public:
  Screen() { Enter(); }
  ~Screen() { Leave(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  static size_t lines() { return Size().ws_row; }
  static size_t columns() { return Size().ws_col; }
  static void Draw(const std::string& text) {
    const winsize size = Size();
    const std::string fitted = FitToScreen(text, size.ws_col, static_cast<size_t>(size.ws_row) - 1);
    std::fputs(DrawOver(absl::StrCat(fitted, "\n", FitToScreen("q: quit", size.ws_col, 1))).c_str(), stdout);
    std::fflush(stdout);
  }
  // Waits for a key, at most so long; '\0': none came. A signal ends it, and none is missed: `open` are those that this
  // thread takes nowhere else.
  static char Key(absl::Duration limit, const sigset_t& open) {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    const timespec time = absl::ToTimespec(limit);
    if (ppoll(&input, 1, &time, &open) <= 0) return '\0';
    char key = '\0';
    // Its end is the user's as well.
    return read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
  }
  // Gives the terminal to the shell, as Ctrl-Z asks, until the user comes back.
  void Suspend() {
    Leave();
    raise(SIGSTOP);
    Enter();
  }

 private:
  void Enter() {
    tcgetattr(STDIN_FILENO, &before_);
    termios settings = before_;
    settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    tcsetattr(STDIN_FILENO, TCSANOW, &settings);
    std::fputs(kEnterScreen, stdout);
  }
  void Leave() {
    std::fputs(kLeaveScreen, stdout);
    std::fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  static winsize Size() {
    winsize size = {};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) return {24, 80, 0, 0};
    return size;
  }
  termios before_ = {};
};

// Ctrl-C, as q, leaves the terminal as it was; another size draws anew. From now on the signals come within Key only:
// the set that Key opens.
sigset_t HoldSignals() {
  sigset_t held;
  sigset_t open;
  sigemptyset(&held);
  struct sigaction action = {};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGWINCH}) {
    action.sa_handler = signal == SIGWINCH  ? [](int) {}
                        : signal == SIGTSTP ? [](int) { is_suspended = 1; }
                                            : [](int) { is_interrupted = 1; };
    sigaction(signal, &action, nullptr);
    sigaddset(&held, signal);
  }
  pthread_sigmask(SIG_BLOCK, &held, &open);
  return open;
}

int ShowLive(const TopOptions& options) {
  const sigset_t open = HoldSignals();
  absl::Status failed;
  {
    Screen screen;
    while (is_interrupted == 0) {
      const absl::StatusOr<Sight> sight = Look(options);
      failed = sight.status();
      if (absl::IsInvalidArgument(failed) || absl::IsNotFound(failed)) break;
      // A coordinator that is being restarted comes back.
      Screen::Draw(sight.ok() ? Show(options, *sight, Screen::lines() - 1, Screen::columns())
                              : std::string(failed.message()) + "\n");
      if (Screen::Key(absl::Seconds(options.interval_s), open) == 'q') break;
      if (std::exchange(is_suspended, 0) != 0) screen.Suspend();
    }
  }
  return failed.ok() ? 0 : Report(failed);
}

int Top(const TopOptions& options) {
  const bool is_live = !options.once && !options.json && isatty(STDOUT_FILENO) != 0 && isatty(STDIN_FILENO) != 0;
  if (is_live) return ShowLive(options);
  const absl::StatusOr<Sight> sight = Look(options);
  if (!sight.ok()) return Report(sight.status());
  std::cout << (options.json ? ShowAsJson(options, *sight) + "\n" : Show(options, *sight, 0, 0));
  return 0;
}

}  // namespace

void AddTopCommand(CLI::App* app, int* exit_code) {
  CLI::App* command =
      app->add_subcommand("top", "Show the jobs, or one job's ranks, as they are now: the worst first; q quits");
  // shared: by the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<TopOptions>();
  options->source.state_home = launcher::ReadRunEnvironment().state_home.path;
  command->add_option("NAME", options->job, "One job's ranks");
  AddCoordinatorOptions(command, &options->source);
  command->add_option("--tenant", options->tenant,
                      "Only jobs of this tenant (needs a role of the cluster for another's)");
  command->add_option("--interval", options->interval_s, "Seconds between two looks")->check(CLI::Range(0.1, 3600.0));
  command->add_flag("--once", options->once, "Print it once and end, as without a terminal");
  command->add_flag("--json", options->json, "Print JSON, once");
  command->callback([options, exit_code] { *exit_code = Top(*options); });
}

}  // namespace farandole
