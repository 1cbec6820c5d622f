// Writes docs/growth.md: what joining, forming, negotiation and the steady state cost by the number of ranks, with the
// real messages counted. `growth FILE`.
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tests/simulation/growth_phase.h"

namespace farandole {
namespace {

constexpr int kSizes[] = {64, 1024, 10240};
constexpr int kNames = 20;

constexpr char kHead[] = R"(# Growth

For people who plan jobs of many ranks.

This page shows what a job costs by its number of ranks, eight on a host. `make growth` writes it: the coordinator's
core (`server/job`), the leaders' channels, links, frames and pages are the real ones, and their messages are counted as
they are; the network is not there. Bytes are those of the messages, without gRPC's and TCP's own. CPU time is one core of the
machine that wrote the page, while it did other things: an order of magnitude, no measurement.

)";

constexpr char kCoordinator[] = R"(## The coordinator

CPU time is that of the decisions alone; reading and writing messages comes to it, and goes with their bytes.

| ranks | phase | messages in | bytes in | messages out | bytes out | bytes to the store | CPU |
|---|---|---|---|---|---|---|---|
)";

constexpr char kCoordinatorBounds[] = R"(
- **Forming is the square of the ranks in bytes**: each member is told of all members (some 210 bytes each), so that it can
  name and reach any of them. At 10,240 ranks that is 22 GB through the coordinator's network, 18 s at 10 Gb/s; the decision
  makes the message once for all streams, but each stream writes it. At 1,024 ranks it is 0.2 GB. Telling each host once would
  divide it by the ranks of a host; it is the first thing to do for more.
- **The message that forms the epoch** bounds the members' descriptions by 3 MiB (a message has at most 16 MiB): about 16,000
  ranks. One job's limit is `FARANDOLE_MAX_WORKERS`, 4,096 unless it is set.
- **The store** takes 1 MiB at once. Members are a row of their own, written once and compressed; the job's record, which
  changes with each member that leaves, does not carry them: at 10,240 ranks that would be 6 GB. It still carries the history and
  the ranks that have left, some 30 KB each time.
- **A new name costs each rank one message up and one down**, once. **In the steady state only hosts speak**, twice a second.
- **A loss in an elastic job** costs what joining and forming cost: the decisions about one of 10,240 and the next epoch take
  some 0.2 s; the epoch's members to all of them, as above, take longer than all else.

)";

constexpr char kTree[] = R"(## Readiness and order between hosts

One step in which every rank submits 20 tensors, which become one batch; of each level the leader with the most traffic.
The tree has a fan-out of 16, so 1,024 ranks on 128 hosts have two levels below rank 0's host, and 10,240 on 1,280 three.

| ranks | who | messages in | bytes in | messages out | bytes out | CPU |
|---|---|---|---|---|---|---|
)";

constexpr char kTreeBounds[] = R"(
- **Posts go up as they are**: rank 0 is sent one post of 61 bytes (and the payload, where a small tensor has one) for each
  rank of other hosts and tensor, and a leader those of the hosts below it. Its CPU time, and not the network, bounds what a
  job can submit: tensors a step times ranks, some 0.2 us each before they are ordered. Leaders that merge equal posts would make
  that the fan-out; a grouped call is one post already.
- **The log goes down once to each child**: 16 copies at most, whatever the size.
)";

std::string Show(const Traffic& traffic) { return absl::StrCat(traffic.messages, " | ", traffic.bytes); }

void Write(std::ostream& page) {
  page << kHead << kCoordinator;
  for (const int ranks : kSizes) {
    for (const GrowthPhase& phase : MeasureCoordinator(ranks, kNames)) {
      page << absl::StrFormat("| %d | %s | %s | %s | %d | %.1f ms |\n", ranks, phase.name, Show(phase.in),
                              Show(phase.out), phase.store_bytes, phase.cpu_ms);
    }
  }
  page << kCoordinatorBounds << kTree;
  for (const int ranks : kSizes) {
    for (GrowthPhase& phase : MeasureTree(ranks, kNames)) {
      page << absl::StrFormat("| %d | %s | %s | %s | %.2f ms |\n", ranks, phase.name, Show(phase.in), Show(phase.out),
                              phase.cpu_ms);
    }
  }
  page << kTreeBounds;
}

}  // namespace
}  // namespace farandole

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "growth: takes one argument, the file to write\n";
    return 2;
  }
  std::ofstream page(argv[1]);
  farandole::Write(page);
  page.close();
  if (page.good()) return 0;
  std::cerr << "growth: cannot write " << argv[1] << "\n";
  return 1;
}
