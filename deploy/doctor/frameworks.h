#ifndef FARANDOLE_DEPLOY_DOCTOR_FRAMEWORKS_H_
#define FARANDOLE_DEPLOY_DOCTOR_FRAMEWORKS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "deploy/doctor/finding.h"

namespace farandole::doctor {

// Reading metadata takes a Python on a busy machine a second or two.
constexpr absl::Duration kPythonLimit = absl::Seconds(30);

// The Python that belongs to the `farandole` at `program`: the one in its directory, or that of the environment into
// which its wheel was installed (PREFIX/lib/python3.11/site-packages/farandole/_bin/farandole); if there is none,
// "python3", which PATH finds.
std::string PythonOf(const std::string& program);

// Reports the packages of the Python at `python`: torch, tensorflow, keras, tf-keras, mxnet, jax, numpy, and
// Farandole's own package, with a warning for a framework that this one's versions exclude, wholly or for a part of
// what Farandole does with it. Another process reads that from the packages' metadata, without importing them.
Findings CheckFrameworks(const std::string& python, const std::vector<std::string>& environment, absl::Duration limit);

// The findings about that process's output. Pure.
Findings ReadFrameworks(const std::string& python, const std::string& written);

// A framework by the name that people know, and why Farandole cannot be used with it; empty where it can.
struct FrameworkUse {
  std::string name;
  std::string why_not;
};

// Each framework that Farandole has a module for, in the Python at `python`, as CheckFrameworks finds them.
std::vector<FrameworkUse> FindUsableFrameworks(const std::string& python, const std::vector<std::string>& environment,
                                               absl::Duration limit);

// The frameworks in that process's output. Pure.
std::vector<FrameworkUse> ReadUsableFrameworks(const std::string& python, const std::string& written);

// Where the SDKs of C++ and Go are: below the prefix in whose bin the `farandole` at `program` lies, or in the package
// of its wheel. A warning for an SDK without the library that programs load.
Findings CheckSdks(const std::string& program);

}  // namespace farandole::doctor

#endif  // FARANDOLE_DEPLOY_DOCTOR_FRAMEWORKS_H_
