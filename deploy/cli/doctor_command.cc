#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/version.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/text/text_table.h"
#include "deploy/doctor/finding.h"
#include "deploy/doctor/frameworks.h"
#include "deploy/doctor/machine.h"
#include "deploy/doctor/transports.h"
#include "deploy/launcher/environment/options.h"
#include "deploy/launcher/process/worker_process.h"
#include "nlohmann/json.hpp"
#include "web/job_json.h"

namespace farandole {
namespace {

using doctor::Finding;
using doctor::Findings;
using Json = nlohmann::ordered_json;

struct DoctorOptions {
  std::string python = doctor::PythonOf(launcher::OwnProgram());
  launcher::RunEnvironment environment;
  bool json = false;
};

const char* Word(Finding::Level level) {
  switch (level) {
    case Finding::Level::kOk:
      return "OK";
    case Finding::Level::kWarn:
      return "WARN";
    case Finding::Level::kFail:
      return "FAIL";
  }
  return "FAIL";
}

Findings LookAtAll(const DoctorOptions& options) {
  Findings all = {doctor::Ok("farandole", kVersion)};
  for (Findings& part : std::vector<Findings>{
           doctor::CheckMachine(), doctor::CheckLimits(), doctor::CheckStateHome(options.environment.state_home),
           doctor::CheckTransports(), doctor::CheckNetwork(), doctor::CheckSsh(options.environment.variables),
           doctor::CheckFrameworks(options.python, options.environment.variables, doctor::kPythonLimit)}) {
    for (Finding& finding : part) all.push_back(std::move(finding));
  }
  for (Finding& finding : doctor::CheckSdks(launcher::OwnProgram())) all.push_back(std::move(finding));
  return all;
}

void PrintText(const Findings& findings) {
  for (const Finding& finding : findings) {
    std::cout << absl::StreamFormat("%-5s %-11s %s%s\n", Word(finding.level), finding.subject,
                                    WithoutControls(finding.text),
                                    finding.advice.empty() ? "" : absl::StrCat(": ", finding.advice));
  }
}

void PrintJson(const Findings& findings) {
  Json array = Json::array();
  for (const Finding& finding : findings) {
    array.push_back({{"level", Word(finding.level)},
                     {"subject", finding.subject},
                     {"text", finding.text},
                     {"advice", finding.advice}});
  }
  std::cout << ShowJson(array, 2) << "\n";
}

int RunDoctor(const DoctorOptions& options) {
  const Findings findings = LookAtAll(options);
  if (options.json) {
    PrintJson(findings);
  } else {
    PrintText(findings);
  }
  for (const Finding& finding : findings) {
    if (finding.level == Finding::Level::kFail) return 1;
  }
  return 0;
}

}  // namespace

void AddDoctorCommand(CLI::App* app, int* exit_code) {
  CLI::App* doctor = app->add_subcommand("doctor", "Look at this machine: what works, what does not, what to do");
  // shared: with the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<DoctorOptions>();
  options->environment = launcher::ReadRunEnvironment();
  doctor->add_option("--python", options->python, "The Python whose packages count")
      ->type_name("FILE")
      ->capture_default_str();
  doctor->add_flag("--json", options->json, "Print JSON instead of text");
  doctor->callback([options, exit_code] { *exit_code = RunDoctor(*options); });
}

}  // namespace farandole
