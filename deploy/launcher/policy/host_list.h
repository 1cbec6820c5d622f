#ifndef FARANDOLE_DEPLOY_LAUNCHER_POLICY_HOST_LIST_H_
#define FARANDOLE_DEPLOY_LAUNCHER_POLICY_HOST_LIST_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace farandole::launcher {

// A host, as ssh knows it ("node-3", "user@10.1.2.3", "fd00::7"), and how many workers it takes. Pure.
struct HostSlots {
  std::string host;
  int slots = 0;
  // This machine: no ssh. Set by MarkThisMachine.
  bool is_here = false;
};

// The workers that run on one host: those with launch indices from `first` on.
struct HostShare {
  std::string host;
  int first = 0;
  int count = 0;
  bool is_here = false;
};

// "a:2,[fd00::7]:4".
//   INVALID_ARGUMENT  an entry is not HOST:SLOTS, or a host is named twice; the text names it
absl::StatusOr<std::vector<HostSlots>> ParseHosts(const std::string& text);

// Horovod's host file: lines "HOST slots=N", empty ones, and comments from '#' on. `path` names the file in errors.
//   INVALID_ARGUMENT  as above; file and line are named
absl::StatusOr<std::vector<HostSlots>> ParseHostfile(const std::string& text, const std::string& path);

// Parses the output of a host discovery script: lines "HOST:SLOTS", or "HOST", which has `default_slots`. May be
// nothing.
//   INVALID_ARGUMENT  as above; the line is named
absl::StatusOr<std::vector<HostSlots>> ParseDiscovered(const std::string& text, int default_slots);

int CountSlots(const std::vector<HostSlots>& hosts);

// Says which of the hosts are this machine: "localhost", `own_name`, its first part, and, if no other loopback address
// is named, 127.0.0.1 and ::1 (others may be aliases by which several hosts are played).
void MarkThisMachine(const std::string& own_name, std::vector<HostSlots>* hosts);

// Where a worker is among those of other hosts that have its local rank.
struct CrossPlace {
  int rank = 0;
  int size = 0;
};

CrossPlace FindCrossPlace(const std::vector<HostShare>& shares, const std::string& host, int local_rank);

// Gives `workers` workers, at most CountSlots(hosts), to the hosts in their order, each up to its slots. Hosts that get
// none are left out.
std::vector<HostShare> SpreadWorkers(const std::vector<HostSlots>& hosts, int workers);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_POLICY_HOST_LIST_H_
