// `farandole stacks`: the native stacks of a process on this machine.
#include <stdlib.h>
#include <sys/types.h>

#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/time/time.h"
#include "deploy/cli/commands.h"
#include "deploy/stacks/native_stacks.h"
#include "web/files/evidence_text.h"

namespace farandole {
namespace {

// The kernel gives no greater number.
constexpr int kMostPid = 1 << 22;

struct StacksOptions {
  pid_t pid = 0;
  pid_t skipped = 0;
  int64_t patience_ms = 10'000;
  bool json = false;
  bool message = false;
};

int ShowStacks(const StacksOptions& options) {
  // libdw would ask the servers that it names for debug information. No other thread runs yet.
  unsetenv("DEBUGINFOD_URLS");
  const v1::NativeStacks stacks =
      stacks::ReadNativeStacks(options.pid, absl::Milliseconds(options.patience_ms), options.skipped);
  if (options.message) {
    stacks.SerializeToOstream(&std::cout);
    std::cout.flush();
    return 0;
  }
  if (stacks.threads_size() == 0) {
    std::cerr << "farandole stacks: " << stacks.about() << "\n";
    return 1;
  }
  std::cout << (options.json ? EvidenceJson(stacks) : stacks::ShowNativeStacks(options.pid, stacks));
  return 0;
}

}  // namespace

void AddStacksCommand(CLI::App* app, int* exit_code) {
  CLI::App* command = app->add_subcommand(
      "stacks", "Show in which functions the threads of a process of this machine are, of compiled code");
  // shared: by the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<StacksOptions>();
  command->add_option("PID", options->pid, "The process's number")->required()->check(CLI::Range(1, kMostPid));
  command->add_option("--patience-ms", options->patience_ms, "How long names of functions are looked for")
      ->check(CLI::Range(1, 600'000))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON instead of text");
  // For the worker library, whose thread that waits for this program cannot be stopped.
  command->add_option("--skip", options->skipped, "Leave out this thread")->group("");
  command->add_flag("--message", options->message, "Print the message NativeStacks of flight.proto")->group("");
  command->callback([options, exit_code] { *exit_code = ShowStacks(*options); });
}

}  // namespace farandole
