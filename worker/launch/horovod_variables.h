#ifndef FARANDOLE_WORKER_LAUNCH_HOROVOD_VARIABLES_H_
#define FARANDOLE_WORKER_LAUNCH_HOROVOD_VARIABLES_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace farandole {

// A variable of Horovod's with the meaning of a setting of ours.
struct HorovodAlias {
  const char* variable;
  const char* setting;
  // The unit in the setting's words: "seconds".
  const char* unit;
};

const std::vector<HorovodAlias>& HorovodAliases();

// Translates Horovod's variables into our settings: setting to value. `variables` is the environment,
// "NAME=value"; an empty value is none. Variables of Horovod's that have no meaning here are left alone, and so are
// those that Horovod does not know. `initial` is the environment that the process was started with: if a launcher has
// set our variable to another value, the value that the program itself has set since counts. Pure.
//   INVALID_ARGUMENT  a value is not of its kind; a variable is one letter away from one that has a meaning here and is
//                     not set itself (it is named); or one says something else than our setting, or than another one of
//                     Horovod's
absl::StatusOr<std::map<std::string, std::string>> ReadHorovodVariables(const std::vector<std::string>& variables,
                                                                        const std::set<std::string>& initial);

// One sentence that names the variables that begin as Horovod's do, but that Horovod does not know (a container's
// HOROVOD_IMAGE); "": there are none. Pure.
std::string DescribeUnknownHorovodVariables(const std::vector<std::string>& variables);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_HOROVOD_VARIABLES_H_
