#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "deploy/cli/commands.h"
#include "deploy/cli/timeline_files.h"

namespace farandole {
namespace {

struct MergeOptions {
  std::vector<std::string> files;
  std::string output;
};

}  // namespace

void AddTimelineCommand(CLI::App* app, int* exit_code) {
  CLI::App* timeline = app->add_subcommand("timeline", "Timelines of what tensors waited for");
  timeline->require_subcommand(1);
  CLI::App* merge = timeline->add_subcommand("merge", "Put the timelines of several ranks into one file");
  // shared: with the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<MergeOptions>();
  merge->add_option("files", options->files, "What the ranks have written")->type_name("FILE...")->required();
  merge->add_option("-o,--output", options->output, "Where to; otherwise standard output")->type_name("FILE");
  merge->callback([options, exit_code] {
    const absl::Status merged = MergeTimelines(options->files, options->output);
    if (!merged.ok()) std::cerr << "farandole timeline: " << merged.message() << "\n";
    *exit_code = merged.ok() ? 0 : absl::IsUnavailable(merged) ? 1 : 2;
  });
}

}  // namespace farandole
