#ifndef FARANDOLE_DEPLOY_DOCTOR_MACHINE_H_
#define FARANDOLE_DEPLOY_DOCTOR_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/state_home.h"
#include "deploy/doctor/finding.h"

namespace farandole::doctor {

// Kernel, C library, cores and the processor's features.
Findings CheckMachine();

// Open files, locked memory, processes.
Findings CheckLimits();

// Where `farandole run` and `serve` keep their state: in `farandole` below it.
Findings CheckStateHome(const StateHome& state_home);

// The findings about the features that /proc/cpuinfo lists. Pure.
Finding ReadFeatures(const std::string& cpuinfo);

// The smallest pids.max of the control group that /proc/self/cgroup names and of those above it, below `root`; nothing
// where none is limited.
std::optional<uint64_t> MostProcesses(const std::string& self_cgroup, const std::string& root);

}  // namespace farandole::doctor

#endif  // FARANDOLE_DEPLOY_DOCTOR_MACHINE_H_
