// Runs all checks as one rank of a job; the directory gets a file of one line of JSON for each check, as
// tests/python/harness.py reads it.
//
//   checks DIRECTORY     checks --list
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>

#include "tests/cpp/checks/check.h"

namespace farandole::checks {

std::vector<NamedCheck>& AllChecks() {
  static std::vector<NamedCheck> all;
  return all;
}

namespace {

// A string of JSON.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character == '\n' ? ' ' : character;
  }
  return quoted + "\"";
}

int RunAll(const std::string& directory) {
  Job job = ExitOnError(Init());
  std::ofstream report(directory + "/" + std::to_string(job.rank()) + ".jsonl");
  for (const NamedCheck& check : AllChecks()) {
    std::string error;
    try {
      check.run(job);
    } catch (const std::exception& failure) {
      error = failure.what();
    }
    report << "[" << Quoted(check.name) << ", " << Quoted(error) << "]" << std::endl;
    if (!error.empty()) return 1;
  }
  ExitOnError(job.Shutdown());
  return 0;
}

}  // namespace
}  // namespace farandole::checks

int main(int argc, char** argv) {
  const std::string argument = argc == 2 ? argv[1] : "";
  if (argument.empty()) {
    std::fprintf(stderr, "usage: checks DIRECTORY | --list\n");
    return 2;
  }
  if (argument != "--list") return farandole::checks::RunAll(argument);
  for (const auto& check : farandole::checks::AllChecks()) std::puts(check.name.c_str());
  return 0;
}
