#ifndef FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_DROP_IN_H_
#define FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_DROP_IN_H_

#include <string>

#include "absl/status/statusor.h"

namespace farandole::launcher {

// The folder that holds Horovod's names for this installation's Python package (farandole/_dropin), to put in front of
// PYTHONPATH. It is looked for from the path of `program`, farandole itself: in the package that holds the program
// (PACKAGE/_bin/farandole), and in those of the Pythons whose bin folder does (PREFIX/lib/python3*/site-packages or
// dist-packages; a farandole.pth there is followed). Which Python's it is does not matter: it holds names only.
//   FAILED_PRECONDITION  there is none; the text says where it was looked for
absl::StatusOr<std::string> FindDropIn(const std::string& program);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_DROP_IN_H_
