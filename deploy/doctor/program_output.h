#ifndef FARANDOLE_DEPLOY_DOCTOR_PROGRAM_OUTPUT_H_
#define FARANDOLE_DEPLOY_DOCTOR_PROGRAM_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace farandole::doctor {

struct ProgramOutput {
  // 128 + the signal where one ended it.
  int exit_code = 0;
  // stdout and stderr together; the first 1 MiB.
  std::string text;
};

// Runs a program (arguments[0], which PATH finds) without a terminal, with `environment` ("NAME=value" each), and waits
// for its end. Kills the program if it still runs after `limit`.
//   NOT_FOUND          there is no such program
//   DEADLINE_EXCEEDED  it took longer
//   UNAVAILABLE        it cannot be started (the system's words)
absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& environment, absl::Duration limit);

}  // namespace farandole::doctor

#endif  // FARANDOLE_DEPLOY_DOCTOR_PROGRAM_OUTPUT_H_
