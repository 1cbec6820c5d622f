#include "deploy/cli/command_line.h"

#include <algorithm>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/nearest_name.h"
#include "deploy/launcher/environment/options.h"

namespace farandole {
namespace {

constexpr char kHorovodrun[] = "horovodrun";

const CLI::App& InnermostCommand(const CLI::App& app) {
  const CLI::App* found = &app;
  for (auto deeper = found->get_subcommands(); !deeper.empty(); deeper = found->get_subcommands()) found = deeper[0];
  return *found;
}

// Help, which CLI11 makes of the commands' own names, and version.
void PrintWanted(const CLI::App& app, const CLI::ParseError& wanted) {
  std::ostringstream out;
  app.exit(wanted, out, out);
  std::cout << absl::StrReplaceAll(out.str(), {{absl::StrCat(kHorovodrun, " run"), kHorovodrun}});
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

bool IsOption(const std::string& word) { return absl::StartsWith(word, "-") && word != "--"; }

// The sentence about an argument that nothing knows.
std::string DescribeUnknown(const CLI::App& app, const std::vector<std::string>& unknown) {
  const CLI::App& command = InnermostCommand(app);
  const bool has_commands = !CommandNames(command).empty();
  // Of a command that has none, an unknown option is named first, because the other unknown words may be its value.
  auto word = has_commands ? unknown.begin() : std::find_if(unknown.begin(), unknown.end(), IsOption);
  if (word == unknown.end()) word = unknown.begin();
  const bool is_option = IsOption(*word);
  const std::string typed = is_option ? std::string(absl::string_view(*word).substr(0, word->find('='))) : *word;
  const std::string nearest = NearestName(typed, is_option ? OptionNames(command) : CommandNames(command));
  const char* kind = is_option ? "option" : has_commands ? "command" : "argument";
  return absl::StrCat(NameCommand(app), ": unknown ", kind, " '", typed, "'",
                      nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, "'?"));
}

}  // namespace

std::string NameCommand(const CLI::App& app) {
  std::string name = app.get_name();
  if (name == kHorovodrun) return name;
  for (auto deeper = app.get_subcommands(); !deeper.empty(); deeper = deeper[0]->get_subcommands())
    absl::StrAppend(&name, " ", deeper[0]->get_name());
  return name;
}

int RunCommandLine(CLI::App* app, const std::vector<std::string>& arguments, const int* exit_code) {
  std::vector<std::string> prepared = arguments;
  if (!arguments.empty() && arguments[0] == "run") {
    prepared = launcher::MarkCommand(*app->get_subcommand("run"), {arguments.begin() + 1, arguments.end()});
    prepared.insert(prepared.begin(), "run");
  }
  // CLI11 takes them from the end.
  std::reverse(prepared.begin(), prepared.end());
  std::string wrong;
  try {
    app->parse(prepared);
    return *exit_code;
  } catch (const CLI::ExtrasError&) {
    wrong = DescribeUnknown(*app, app->remaining(true));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      PrintWanted(*app, error);
      return 0;
    }
    // A missing command is often one that was misspelt.
    const std::vector<std::string> unknown = app->remaining(true);
    const bool is_misspelt = error.get_name() == "RequiredError" && !unknown.empty();
    wrong = is_misspelt ? DescribeUnknown(*app, unknown) : absl::StrCat(NameCommand(*app), ": ", error.what());
  }
  std::cerr << wrong << " (" << NameCommand(*app) << " --help lists what there is)\n";
  return 2;
}

}  // namespace farandole
