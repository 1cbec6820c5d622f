#ifndef FARANDOLE_DEPLOY_CLI_COMMAND_LINE_H_
#define FARANDOLE_DEPLOY_CLI_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace farandole {

// The innermost command that the arguments have named, as it is typed: "farandole checkpoint list". An `app` of the
// name "horovodrun" stands for its command `run` alone.
std::string NameCommand(const CLI::App& app);

// Parses the arguments (without the program's name) with `app`, whose commands are added already, and runs the command
// that they name. Help and version go to stdout. Returns `*exit_code` as the command left it, 0 for help and version,
// or 2 after a sentence on stderr that says what is wrong with the arguments and suggests the likely spelling.
int RunCommandLine(CLI::App* app, const std::vector<std::string>& arguments, const int* exit_code);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COMMAND_LINE_H_
