#ifndef FARANDOLE_DEPLOY_DOCTOR_TRANSPORTS_H_
#define FARANDOLE_DEPLOY_DOCTOR_TRANSPORTS_H_

#include <string>
#include <vector>

#include "deploy/doctor/finding.h"

namespace farandole::doctor {

// Tries the ways by which workers reach each other: shared memory, the watch over processes, TCP, the libraries gloo
// and nccl, and the right to read another process's memory. Forks; so no other thread may run.
Findings CheckTransports();

// The interfaces that are up, with their addresses.
Findings CheckNetwork();

// The system's ssh client.
Findings CheckSsh(const std::vector<std::string>& environment);

}  // namespace farandole::doctor

#endif  // FARANDOLE_DEPLOY_DOCTOR_TRANSPORTS_H_
